"""The address behind the Service for readers: that of the replica that leads, kept in an EndpointSlice of Muster's own.

The leader alone writes, and what it writes is the whole list: its predecessor is out of the Service by the same patch.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

import structlog

from extender.control.ports import ApiError
from extender.kube.api import ApiServer, JsonObject, Sleep

#: How often a replica looks whether it leads (seconds): in memory.
LOOK_SECONDS: Final = 1.0
#: Looks between two patches of a leader that stays: the slice is put right after its manifest was applied again.
LOOKS_A_PATCH: Final = 30

log = structlog.get_logger("muster.readservice")


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """The EndpointSlice to keep, and the pod to name in it."""

    namespace: str
    name: str
    address: str
    pod: str

    @classmethod
    def of(cls, slice_name: str, address: str, pod: str) -> ReadSlice:
        """Read NAMESPACE/NAME and the pod's address; raise ValueError for what is none."""
        namespace, slash, name = slice_name.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ValueError(f"--read-slice: {slice_name!r} is not NAMESPACE/NAME, such as muster-system/muster-read")
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise ValueError(
                f"--read-slice: POD_IP is {address!r}, not an address; set it from the pod's status.podIP"
            ) from error
        return cls(namespace, name, address, pod)

    @property
    def path(self) -> str:
        """Return where the API server has it."""
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices/{self.name}"

    def body(self) -> JsonObject:
        """Return a merge patch: this pod, and no other. Source: k8s.io/api/discovery/v1 Endpoint."""
        pod = {"kind": "Pod", "namespace": self.namespace, "name": self.pod}
        return {"endpoints": [{"addresses": [self.address], "conditions": {"ready": True}, "targetRef": pod}]}


async def follow_leader(
    api: ApiServer, kept: ReadSlice, leads: Callable[[], bool], *, sleep: Sleep = asyncio.sleep
) -> NoReturn:
    """Name this replica in the slice when it begins to lead, and now and then while it does; try again on refusals."""
    due, refused = 0, ""
    while True:
        if not leads():
            due = 0
        elif due > 0:
            due -= 1
        else:
            try:
                await api.patch(kept.path, kept.body())
                due, refused = LOOKS_A_PATCH - 1, ""
            except ApiError as error:
                if str(error) != refused:
                    log.warning("readers are not led here", slice=f"{kept.namespace}/{kept.name}", error=str(error))
                refused = str(error)
        await sleep(LOOK_SECONDS)
