"""Random clusters with devices of every sort, for comparisons with kube-scheduler's allocator."""

from __future__ import annotations

import random
from typing import Any

from tests.builders import Json, metadata_json
from tests.objects.dra import NVIDIA, claim_json, class_json, device_json, option_json, request_json, slice_json

NODE: Json = {"metadata": metadata_json("node-1", labels={"rack": "a", "zone": "z"})}
_MODELS = ("NVIDIA A100", "NVIDIA H100", "NVIDIA B200")
_FABRIC = "fabric.example.com"
_TAINTS = (
    {"key": "unhealthy", "effect": "NoSchedule"},
    {"key": "gone", "value": "x", "effect": "NoExecute"},
    {"key": "note", "effect": "None"},
)
_TOLERATIONS = (
    {"key": "unhealthy", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "gone", "operator": "Equal", "value": "x", "effect": "NoExecute"},
)
_SELECTORS = (
    f'device.attributes["{NVIDIA}"].productName == "NVIDIA H100"',
    f'device.attributes["{NVIDIA}"].index < 3',
    f'device.capacity["{NVIDIA}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.attributes["{NVIDIA}"].driverVersion.isGreaterThan(semver("570.0.0"))',
    f'"memory" in device.capacity["{NVIDIA}"] && device.attributes["{NVIDIA}"].type == "gpu"',
    'device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci0000:0")',
    "device.allowMultipleAllocations",
)
_FAILING = f'device.attributes["{NVIDIA}"].absent == 1'


class DraWorld:
    """Draw one cluster of one node that matters, what claims have there already, and the claims of one pod."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._chance = self._draw.random
        self.slices: list[Json] = []
        for _ in range(self._draw.choice([1, 1, 2, 3])):
            self._add_pool()
        self.classes = [
            class_json(NVIDIA, f"device.driver == '{NVIDIA}'"),
            class_json("typed", f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'"),
            class_json("any"),
        ]
        self.allocated = [claim for number in range(self._draw.randint(0, 3)) if (claim := self._allocated(number))]
        self.claims = [self._claim(f"claim-{number}") for number in range(self._draw.choice([1, 1, 1, 2, 3]))]

    def _add_pool(self) -> None:
        number = len({each["spec"]["pool"]["name"] for each in self.slices})
        kind = self._draw.choice(["plain", "plain", "plain", "partitions", "shared", "fabric", "mixed"])
        generation = self._draw.randint(1, 3)
        pool, pieces = f"pool-{self._draw.randint(0, 9)}{number}", self._draw.choice([1, 1, 2])
        where: dict[str, Any] = {"node": "node-1"}
        if kind == "fabric":
            where = (
                {"node": "", "nodeSelector": self._rack()} if self._chance() < 0.5 else {"node": "", "allNodes": True}
            )
        elif kind == "mixed":
            where = {"node": "", "perDeviceNodeSelection": True}
        counted = kind == "partitions"
        spoiled = self._draw.choice(["", "", "", "", "", "", "", "", "", "missing", "old", "twice"])
        total = pieces + counted + (spoiled == "missing")
        for piece in range(pieces):
            devices = [self._device(kind, 10 * piece + each) for each in range(self._draw.randint(1, 6))]
            if spoiled == "twice" and piece == pieces - 1:
                devices.append(dict(devices[0]))
            name = f"slice-{self._draw.randint(0, 99):02}-{number}-{piece}"
            self.slices.append(slice_json(name, *devices, pool=pool, generation=generation, slices=total, **where))
        if counted:
            sets = [
                {"name": f"gpu-{each}", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}
                for each in range(2)
            ]
            self.slices.append(
                slice_json(
                    f"slice-{number}-sets", pool=pool, generation=generation, slices=total, sharedCounters=sets, **where
                )
            )
        if spoiled == "old":
            self.slices.append(
                slice_json(f"slice-{number}-old", self._device(kind, 50), pool=pool, generation=0, slices=1, **where)
            )

    def _rack(self) -> Json:
        rack = self._draw.choice(["a", "a", "b"])
        return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]}

    def _device(self, kind: str, number: int) -> Json:
        attributes: Json = {
            "uuid": {"string": f"GPU-{number}"},
            "index": {"int": number},
            "productName": {"string": self._draw.choice(_MODELS)},
            "type": {"string": "gpu"},
            "driverVersion": {"version": self._draw.choice(["570.86.15", "535.104.5", "580.0.0-beta.2"])},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{self._draw.randint(0, 2)}0"},
            "shared": {"bool": self._chance() < 0.5},
        }
        for name in ("productName", "resource.kubernetes.io/pcieRoot"):
            if self._chance() < 0.05:
                del attributes[name]
        fields: Json = {
            "attributes": attributes,
            "capacity": {"memory": {"value": self._draw.choice(["40Gi", "80Gi"])}},
        }
        if self._chance() < 0.1:
            fields["taints"] = [self._draw.choice(_TAINTS)]
        if self._chance() < 0.03:
            fields["bindingConditions"] = ["ready"]
            fields["bindingFailureConditions"] = ["failed"]
        if self._chance() < 0.05:
            fields["bindsToNode"] = True
        if kind == "partitions":
            counters = {"memory": {"value": self._draw.choice(["10Gi", "20Gi", "40Gi", "80Gi"])}}
            counters["slices"] = {"value": str(self._draw.choice([1, 2, 3, 7]))}
            fields["consumesCounters"] = [{"counterSet": f"gpu-{self._draw.randint(0, 1)}", "counters": counters}]
        if kind == "shared":
            fields["allowMultipleAllocations"] = self._chance() < 0.8
            fields["capacity"] = {"memory": {"value": "80Gi", **self._policy()}, "cores": {"value": "100"}}
        if kind == "mixed":
            fields |= self._draw.choice(
                [{"nodeName": "node-1"}, {"nodeName": "node-2"}, {"allNodes": True}, {"nodeSelector": self._rack()}]
            )
        return device_json(f"gpu-{number}", **fields)

    def _policy(self) -> Json:
        return self._draw.choice(
            [
                {},
                {"requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi", "max": "60Gi", "step": "3Gi"}}},
                {"requestPolicy": {"default": "20Gi", "validRange": {"min": "5Gi"}}},
                {"requestPolicy": {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}},
            ]
        )

    def _allocated(self, number: int) -> Json | None:
        """Return a claim that has some devices, which others may have too: a driver may be careless."""
        devices = [
            (each["spec"]["driver"], each["spec"]["pool"]["name"], device)
            for each in self.slices
            for device in each["spec"]["devices"]
        ]
        results: list[Json] = []
        for driver, pool, device in self._draw.sample(devices, min(len(devices), self._draw.randint(1, 3))):
            result: Json = {"request": "gpu", "driver": driver, "pool": pool, "device": device["name"]}
            if device.get("allowMultipleAllocations"):
                result["shareID"] = f"share-{number}"
                if self._chance() < 0.8:
                    result["consumedCapacity"] = {"memory": self._draw.choice(["10Gi", "20Gi"]), "cores": "10"}
            elif self._chance() < 0.1:
                result["adminAccess"] = True
            results.append(result)
        status = {"allocation": {"devices": {"results": results}}}
        return claim_json(f"has-{number}", request_json(), status=status) if results else None

    def _claim(self, name: str) -> Json:
        requests = [self._request(f"r{number}") for number in range(self._draw.choice([1, 1, 1, 2, 3]))]
        constraints: list[Json] = []
        if self._chance() < 0.35:
            named = [each["name"] for each in requests if self._chance() < 0.5]
            constraints.append(
                ({"requests": named} if named else {})
                | self._draw.choice(
                    [
                        {"matchAttribute": "resource.kubernetes.io/pcieRoot"},
                        {"matchAttribute": f"{NVIDIA}/productName"},
                        {"matchAttribute": f"{NVIDIA}/shared"},
                        {"distinctAttribute": "resource.kubernetes.io/pcieRoot"},
                        {"distinctAttribute": f"{NVIDIA}/uuid"},
                    ]
                )
            )
        return claim_json(name, *requests, constraints=constraints)

    def _request(self, name: str) -> Json:
        if self._chance() < 0.2:
            options = [self._option(f"s{number}") for number in range(self._draw.randint(1, 3))]
            return {"name": name, "firstAvailable": options}
        option = self._option(None)
        if self._chance() < 0.1:
            option["adminAccess"] = True
        return {"name": name, "exactly": option}

    def _option(self, name: str | None) -> Json:
        selectors = [self._draw.choice(_SELECTORS)] if self._chance() < 0.4 else []
        if self._chance() < 0.02:
            selectors.append(_FAILING)
        fields: Json = {"count": self._draw.choice([1, 1, 1, 1, 2, 2, 3])}
        if self._chance() < 0.12:
            fields = {"allocationMode": "All", "count": 0}
        if self._chance() < 0.2:
            fields["tolerations"] = [self._draw.choice(_TOLERATIONS)]
        if self._chance() < 0.25:
            fields["capacity"] = {"requests": {"memory": self._draw.choice(["1", "5Gi", "10Gi", "33Gi", "50Gi"])}}
        named = self._draw.choice([NVIDIA, NVIDIA, NVIDIA, "typed", "any"])
        return option_json(name, named, *selectors, **fields)
