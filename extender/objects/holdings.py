"""Which GPUs and NUMA zones a pod holds, as its annotations say: observed by an agent, or predicted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from extender.objects.meta import DecodeError, Decoder
from extender.objects.reason import Problem, quoted
from extender.objects.text import parse_integer


class ZonePlacement(Struct, gc=False, frozen=True):
    """What a pod holds in one NUMA zone; `amount` is a ResourceList."""

    zone: str
    amount: dict[str, Any]


class DeviceAllocation(Struct, gc=False, frozen=True):
    """One device of a pod; `minor` is the number of the device file."""

    minor: int


decode_zone_placements = Decoder(list[ZonePlacement], "a list of zone placements")
decode_device_allocations = Decoder(dict[str, list[DeviceAllocation]], "DeviceAllocations")
OBSERVED_GPUS = "muster.dev/observed-gpus"
OBSERVED_ZONES = "muster.dev/observed-zones"
PREDICTED_GPUS = "muster.dev/predicted-gpus"
PREDICTED_ZONES = "muster.dev/predicted-zones"
_KAI_ZONES = "kai.scheduler/numa-placement-observed"
_HAMI_GPUS = "hami.io/vgpu-devices-allocated"
_KOORDINATOR_GPUS = "scheduling.koordinator.sh/device-allocated"

#: The keys under `muster.dev/` among them.
OWN_HOLDING_KEYS = frozenset({OBSERVED_GPUS, OBSERVED_ZONES, PREDICTED_GPUS, PREDICTED_ZONES})
#: Every annotation that is read here.
HOLDING_KEYS = OWN_HOLDING_KEYS | {_KAI_ZONES, _HAMI_GPUS, _KOORDINATOR_GPUS}

#: No node has as many GPUs or zones; it keeps a typing error from becoming a bit mask of a gigabyte.
_MOST = 1024
_ZONE_NAME = re.compile(r"(?:.*[^0-9])?([0-9]{1,4})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """What a pod holds of its node, as far as annotations say: an empty field says nothing.

    `gpus` are device indices, `zones` are NUMA zone ids, both ascending. `uuids` name GPUs whose indices only the node
    knows; they are given where no indices are.
    """

    gpus: tuple[int, ...] = ()
    zones: tuple[int, ...] = ()
    uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a pod was seen to hold, what it was predicted to hold, None where nothing says; and what could not be read.

    Of keys that are not Muster's own only those that can be read count, and no word is lost about the others.
    """

    observed: DeviceHolding | None = None
    predicted: DeviceHolding | None = None
    problems: tuple[Problem, ...] = ()


_NO_HOLDINGS = Holdings()


def read_holdings(annotations: Mapping[str, str]) -> Holdings:
    """Read what a pod's annotations say about the devices that it holds; of most it is nothing.

    Each fact is taken from the first that states it. GPUs: Muster's own `observed-gpus`, HAMi, Koordinator. Zones:
    Muster's own `observed-zones`, KAI.
    """
    if HOLDING_KEYS.isdisjoint(annotations):
        return _NO_HOLDINGS
    problems: list[Problem] = []
    gpus = _read_own(annotations, OBSERVED_GPUS, problems)
    uuids = () if gpus else _read_hami(annotations.get(_HAMI_GPUS, ""))
    if not (gpus or uuids):
        gpus = _read_koordinator(annotations.get(_KOORDINATOR_GPUS, ""))
    zones = _read_own(annotations, OBSERVED_ZONES, problems) or _read_kai(annotations.get(_KAI_ZONES, ""))
    predicted_gpus = _read_own(annotations, PREDICTED_GPUS, problems)
    predicted_zones = _read_own(annotations, PREDICTED_ZONES, problems)
    return Holdings(
        observed=DeviceHolding(gpus, zones, uuids) if gpus or zones or uuids else None,
        predicted=DeviceHolding(predicted_gpus, predicted_zones) if predicted_gpus or predicted_zones else None,
        problems=tuple(problems),
    )


def prediction(gpus: Sequence[int], zones: Sequence[int]) -> dict[str, str]:
    """Return the annotations that say what a pod is predicted to hold; none about what is not known."""
    said = ((PREDICTED_GPUS, gpus), (PREDICTED_ZONES, zones))
    return {key: ",".join(map(str, sorted(numbers))) for key, numbers in said if numbers}


def _read_own(annotations: Mapping[str, str], key: str, problems: list[Problem]) -> tuple[int, ...]:
    """Read numbers such as `0,1`; what is none of that becomes a problem, and says nothing."""
    text = annotations.get(key, "").strip()
    if not text:
        return ()
    numbers = [parse_integer(part.strip()) for part in text[: 8 * _MOST].split(",")]
    known = {number for number in numbers if number is not None and 0 <= number < _MOST}
    if len(known) < len(numbers):
        expected = f"different whole numbers from 0 to {_MOST - 1}, separated by commas"
        problems.append(Problem(f"metadata.annotations[{key}]", f"{quoted(text)} is not {expected}"))
        return ()
    return tuple(sorted(known))


def _read_kai(text: str) -> tuple[int, ...]:
    """Read the zones of which a pod holds anything: `[{"zone": "node-0", "amount": {"nvidia.com/gpu": "2"}}]`."""
    if not text:
        return ()
    try:
        placements = decode_zone_placements(_encoded(text))
    except DecodeError:
        return ()
    matches = [_ZONE_NAME.fullmatch(placement.zone) for placement in placements if _any(placement.amount)]
    zones = {int(match[1]) for match in matches if match is not None}
    return tuple(sorted(zones)) if zones and None not in matches and max(zones) < _MOST else ()


def _read_hami(text: str) -> tuple[str, ...]:
    """Read the UUIDs, each once: `UUID,type,memory,cores:` for each device, `;` after each container."""
    segments = [segment for container in text.split(";") for segment in container.split(":") if segment]
    if not segments or len(segments) > _MOST or not all("," in segment for segment in segments):
        return ()
    uuids = (segment.partition(",")[0] for segment in segments)
    # Of a MIG instance the GPU is what matters: GPU-1234[0-1].
    return tuple(dict.fromkeys(name for uuid in uuids if (name := uuid.partition("[")[0])))


def _read_koordinator(text: str) -> tuple[int, ...]:
    """Read the minors of the GPUs: `{"gpu": [{"minor": 0}], "rdma": [...]}`."""
    if not text:
        return ()
    try:
        devices = decode_device_allocations(_encoded(text)).get("gpu", [])
    except DecodeError:
        return ()
    minors = {device.minor for device in devices}
    return tuple(sorted(minors)) if minors and min(minors) >= 0 and max(minors) < _MOST else ()


def _any(amount: Mapping[str, object]) -> bool:
    return any(str(quantity) not in {"", "0"} for quantity in amount.values())


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # the decoder says what is wrong with it
