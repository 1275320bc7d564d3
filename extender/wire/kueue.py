"""What Kueue's annotations hold as JSON. Source: kubernetes-sigs/kueue KEP-2724, multi-level scheduling."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from extender.wire.codec import Decoder


class SliceConstraint(Struct, gc=False, frozen=True):
    """One layer of slices: every `size` pods in one domain of `topology`, or slices of several `sizes`."""

    topology: str | None = None
    size: int | str | None = None
    sizes: list[Any] | None = None


decode_slice_constraints = Decoder(list[SliceConstraint], "slice constraints")
