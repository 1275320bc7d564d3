"""What a node in some state does for pods of one shape, in GB/s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from extender.cluster.nodekinds import NodeKind
from extender.cluster.noderoom import gpus_asked
from extender.cluster.nodestates import NodeStates
from extender.domain.pod import Shape
from extender.fabric.products import Product
from extender.fabric.setbandwidth import NOMINAL

#: GB/s of network for each GPU of a product that nobody knows: one adapter of 100 Gb/s. Any number will do, as it only
#: tells more GPUs of a node from fewer.
_NOMINAL_NIC = 12.5


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node in some state does for pods of one shape that come one after the other.

    `pods` is how many its GPUs and zones take, at most as many as were asked about; what has a column in the node table
    is counted elsewhere. `gpus` is how many whole GPUs one pod asks for. The tuples are by number of pods, one pod
    first, in GB/s: of an all-reduce among all GPUs that so many pods get there (infinite for one GPU or none), of the
    network cards local to those, and what future requests lose by them. Without `product` the figures are nominal: they
    tell better from worse, and predict nothing.
    """

    pods: int
    gpus: int
    product: Product | None
    nvls: bool
    inner: tuple[float, ...]
    outer: tuple[float, ...]
    loss: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What some pods have of one node together.

    `gpus` is how many; in GB/s: `inner` of an all-reduce among them (infinite for one or none), `outer` of the network
    cards local to them, `lost` what future requests could get of the node besides if these were free. `others` says
    whether any GPU is held by somebody else. The figures are nominal without `product`.
    """

    gpus: int
    inner: float
    outer: float
    lost: float
    product: Product | None
    others: bool


def offer_of(states: NodeStates, state: int, shape: Shape, most: int) -> Offer:
    """Return what a node in `state` does for up to `most` pods of `shape`."""
    kind = states.kind(state)
    if kind.topology is None:
        demand = states.demand(state, shape)
        if isinstance(demand, int) and not (demand and kind.resource):
            return _uncounted(demand, most)
    return _counted(states, state, shape, most)


def share_of(kind: NodeKind, own: int, free: int) -> Share:
    """Return what pods have that hold the GPUs `own` of a node where `free` are free; both are bit masks."""
    sets = kind.sets
    return Share(
        gpus=own.bit_count(),
        inner=sets.inner(own),
        outer=_outer(kind.product, own.bit_count()),
        lost=sets.value(free | own) - sets.value(free),
        product=kind.product,
        others=free | own != sets.all,
    )


@lru_cache(maxsize=1024)
def _uncounted(gpus: int, most: int) -> Offer:
    """Return the offer of a node that sets no limit: for pods without GPUs, or where they are not told apart."""
    inner = tuple(NOMINAL if pods * gpus > 1 else inf for pods in range(1, most + 1))
    outer = tuple(_NOMINAL_NIC * pods * gpus if gpus else inf for pods in range(1, most + 1))
    return Offer(most, gpus, None, nvls=False, inner=inner, outer=outer, loss=(0.0,) * most)


def _counted(states: NodeStates, state: int, shape: Shape, most: int) -> Offer:
    """Return the offer of a node whose GPUs or zones are counted, one pod after the other."""
    kind = states.kind(state)
    gpus, product, before = gpus_asked(shape, kind.resource), kind.product, kind.sets.value(states.gpus(state))
    inner, outer, loss = [], [], []
    taken = 0
    for _ in range(most):
        step = states.step(state, shape)
        if step is None:
            break
        if step.after == state:
            return _uncounted(0, most)
        state = step.after
        taken |= step.taking.gpus
        inner.append(kind.sets.inner(taken))
        outer.append(_outer(product, taken.bit_count()))
        loss.append(before - kind.sets.value(states.gpus(state)))
    nvls = product is not None and product.nvls
    return Offer(len(inner), gpus, product, nvls, tuple(inner), tuple(outer), tuple(loss))


def _outer(product: Product | None, gpus: int) -> float:
    if not gpus:
        return inf
    return _NOMINAL_NIC * gpus if product is None else product.outer(gpus)
