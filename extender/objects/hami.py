"""Parts of devices, as HAMi shares them out: what pods ask for, and what a node's register says that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from extender.objects.keys import HAMI_REGISTER
from extender.objects.meta import DecodeError, Decoder
from extender.objects.requests import MOST_AMOUNT
from extender.objects.text import parse_integer


class RegisteredGpu(Struct, gc=False, frozen=True):
    """One GPU as registered; `index` is the device number, `numa` its zone (-1: unknown).

    `devmem` is what HAMi shares out of its memory (MiB, scaled as HAMi is told to), `devcore` of its cores (percent).
    Source: HAMi pkg/device/devices.go, DeviceInfo.
    """

    id: str
    index: int | None = None
    numa: int = -1
    devmem: int = 0
    devcore: int = 0
    health: bool = True


decode_registered_gpus = Decoder(list[RegisteredGpu], "a list of registered GPUs")

#: Resources of which HAMi's device plugin tells kubelets nothing: its extender counts them. Source: HAMi
#: charts/hami/values.yaml 2.10.
GPU_MEMORY = "nvidia.com/gpumem"
GPU_MEMORY_PERCENTAGE = "nvidia.com/gpumem-percentage"
GPU_CORES = "nvidia.com/gpucores"
_WHOLE = 100

#: What HAMi has pods ask for beside devices: kubelets are told of devices only, and HAMi's extender counts the parts.
#: Source: HAMi charts/hami/values.yaml, templates/scheduler/device-configmap.yaml; 2.10 and releases before it.
HAMI_PARTS = frozenset(
    {
        *(GPU_MEMORY, GPU_MEMORY_PERCENTAGE, GPU_CORES),
        "nvidia.com/priority",
        "cambricon.com/mlu.smlu.vmemory",
        "cambricon.com/mlu.smlu.vcore",
        "enflame.com/gcu-memory",
        "enflame.com/gcu-core",
        "enflame.com/vgcu-percentage",
        "huawei.com/Ascend310P-memory",
        "huawei.com/Ascend910A-memory",
        "huawei.com/Ascend910B-memory",
        "huawei.com/Ascend910B2-memory",
        "huawei.com/Ascend910B4-memory",
        "hygon.com/dcumem",
        "hygon.com/dcucores",
        "hygon.com/hcumem",
        "hygon.com/hcucores",
        "kunlunxin.com/vxpu-memory",
        "metax-tech.com/vcore",
        "metax-tech.com/vmemory",
        "mthreads.com/sgpu-core",
        "mthreads.com/sgpu-memory",
    }
)

#: The fields of the form with commas: UUID,count,devmem,devcore,type,numa,health.
_DEVMEM, _DEVCORE, _NUMA, _HEALTH = 2, 3, 5, 6


class RegisterError(ValueError):
    """A register that cannot be read; says where and what is expected."""


def read_register(text: str) -> tuple[RegisteredGpu, ...]:
    """Read the register, in order of the device indices: JSON, or `UUID,count,devmem,devcore,type,numa,health:`.

    Raises RegisterError or DecodeError.
    """
    if text.lstrip().startswith("["):
        gpus = decode_registered_gpus(text.encode(errors="surrogatepass"))
        ordered = sorted(enumerate(gpus), key=lambda each: each[0] if each[1].index is None else each[1].index)
        return tuple(gpu for _, gpu in ordered)
    return tuple(_read_legacy(segment, number) for number, segment in enumerate(filter(None, text.split(":"))))


def shared_out(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return how much of a node's GPUs HAMi shares out in all: memory (MiB and percent) and cores (percent).

    Empty where HAMi registers nothing that can be read. A GPU that is not well is left out, as HAMi leaves it out.
    """
    text = annotations.get(HAMI_REGISTER)
    if not text:
        return {}
    try:
        gpus = [gpu for gpu in read_register(text) if gpu.health]
    except (RegisterError, DecodeError):
        return {}  # who reads the links of the GPUs says so
    amounts = {
        GPU_MEMORY: _sum(gpu.devmem for gpu in gpus),
        GPU_MEMORY_PERCENTAGE: _WHOLE * len(gpus),
        GPU_CORES: _sum(gpu.devcore for gpu in gpus),
    }
    return {resource: min(amount, MOST_AMOUNT) for resource, amount in amounts.items() if amount}


def _sum(amounts: Iterable[int]) -> int:
    return sum(max(amount, 0) for amount in amounts)


def _read_legacy(segment: str, number: int) -> RegisteredGpu:
    fields = segment.split(",")
    numa = parse_integer(fields[_NUMA]) if len(fields) > _NUMA else None
    if numa is None:
        message = f"GPU {number} is {segment[:60]!r}; expected UUID,count,devmem,devcore,type,numa,health"
        raise RegisterError(message)
    return RegisteredGpu(
        id=fields[0],
        numa=numa,
        devmem=parse_integer(fields[_DEVMEM]) or 0,
        devcore=parse_integer(fields[_DEVCORE]) or 0,
        health=len(fields) <= _HEALTH or fields[_HEALTH] != "false",
    )
