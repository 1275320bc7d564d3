"""What agents of other schedulers write onto nodes about GPUs: JSON inside annotations.

Sources: HAMi, pkg/device/nvidia (`hami.io/node-nvidia-score`, `hami.io/node-nvidia-register`); Koordinator,
apis/extension/device_share.go, GPUPartitionTable (`scheduling.koordinator.sh/gpu-partitions`).
"""

from __future__ import annotations

from msgspec import Struct

from extender.wire.codec import Decoder


class GpuScores(Struct, gc=False, frozen=True):
    """One GPU's scores with the others, by UUID: 100 for each NVLink, and 10 to 60 for the way over PCIe."""

    uuid: str
    score: dict[str, int] = {}


class RegisteredGpu(Struct, gc=False, frozen=True):
    """One GPU as registered; `index` is the device number, `numa` its zone (-1: unknown)."""

    id: str
    index: int | None = None
    numa: int = -1


class GpuPartition(Struct, gc=False, frozen=True):
    """GPUs, by minor number, that the fabric manager can join into one NVLink partition."""

    minors: list[int] = []


decode_gpu_scores = Decoder(list[GpuScores], "GPU scores")
decode_registered_gpus = Decoder(list[RegisteredGpu], "a list of registered GPUs")
decode_gpu_partitions = Decoder(dict[str, list[GpuPartition]], "a table of GPU partitions")
