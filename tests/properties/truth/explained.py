"""The explanation of one gang: the waterfall, the nearest miss, the holders, its place in line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extender.explain.documents import Explanation, MemberState, NearestDomain
from extender.explain.waterfall import NodeCause
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.service.board.documents import (
    GangRow,
)
from tests.properties.truth.parts import Standing, all_of
from tests.properties.truth.world import GPU, Recomputed, claimed, state_of, taken


class TrueExplanation(Recomputed):
    """How one gang stands in full."""

    def explain(self, shown: Explanation, row: GangRow) -> None:
        """Compare how a gang stands in full."""
        objects = self.objects
        ref = next(ref for ref in objects.groups if ref.name == shown.name)
        self.same("explain.minMember", shown.min_member, row.min_member)
        assert shown.phase == row.phase
        if row.reason is not None or not row.members.waiting:  # else it is why the members beyond the minimum wait
            assert (shown.reason and shown.reason.code) == (row.reason and row.reason.code)
        states = {pod.name: state_of(pod, objects.promised) for pod in objects.members(ref)}
        assert {pod.name: pod.state for pod in shown.pods} == states
        placed = objects.placed(ref)
        if shown.placement is not None:
            gpus = Counter[str]()
            for name, node in placed.items():
                gpus[node] += taken([objects.pods[name]])
            self.same("explain.placement.gpusPerNode{}", +Counter(shown.placement.gpus_per_node), +gpus)
        for fall in shown.waterfall:
            self.same("explain.waterfall[].nodes", fall.nodes, len(objects.nodes))
            left = fall.nodes
            for step in fall.steps:
                left -= step.nodes
                self.same("explain.waterfall[].steps[].left", step.left, left)
            self.same("explain.waterfall[].usable", fall.usable, left)
            steps = Counter({step.cause: step.nodes for step in fall.steps})
            cordoned = sum(not objects.takes_pods(name) for name in objects.nodes)
            self.same("explain.waterfall[].steps[].nodes", steps["Unschedulable"], cordoned)
            assert 0 <= fall.fits <= fall.pods
        if shown.waterfall:
            standing = Standing(objects, ref)
            self.wanted(sum(fall.pods for fall in shown.waterfall), row, Counter(states.values()), standing)
            anywhere = not within_domains(standing)  # else there may be no such domain
            for fall in shown.waterfall if shown.nearest_miss is None and anywhere else ():
                self.same("explain.waterfall[].fits", fall.fits, fall.pods)
        self.nearest(shown, ref)
        within = None if shown.nearest_miss is None else self.inside(shown.nearest_miss)
        assert within is not None or not shown.holders
        assert shown.holders == tuple(sorted(shown.holders, key=lambda each: (-each.gpus, -each.nodes)))
        for holder in shown.holders:
            pods = [pod for pod in objects.pods.values() if holder.gang in {pod.key, str(pod.group)}]
            at = {pod.name: pod.node_name or objects.promised.get(pod.name) for pod in pods if not pod.done}
            there = [pod for pod in pods if at.get(pod.name) in (within or ())]
            self.within("explain.holders[].gpus", holder.gpus, taken(there))
            self.within("explain.holders[].nodes", holder.nodes, len({at[pod.name] for pod in there}))
            assert holder.gpus == taken(there) or len(within or ()) > 1
            assert not any(pod.group == ref for pod in pods)

    def line(self, shown: Explanation, row: GangRow, line: list[GangRow]) -> None:
        """Compare where a gang stands among all that wait, and among those of its Queue."""
        place = shown.queue
        assert place is not None
        own = [each for each in line if each.queue == row.queue]
        self.same("explain.queue.position", place.position, row.position)
        self.same("explain.queue.of", place.of, len(line))
        self.same("explain.queue.ofQueue", place.of_queue, len(own))
        self.same("explain.queue.positionInQueue", place.position_in_queue, own.index(row) + 1 if row in own else None)

    def wanted(self, pods: int, row: GangRow, states: Mapping[MemberState, int], standing: Standing) -> None:
        """Compare how many pods are counted off: those that it needs to start, else the others, else gated ones."""
        lacking = row.min_member - row.members.bound - row.members.succeeded - row.members.reserved
        lacking = max(lacking, standing.gaps)
        waiting, gated = states.get(MemberState.WAITING, 0), states.get(MemberState.GATED, 0)
        if lacking <= 0 and standing.tree is not None:
            self.within("explain.waterfall[].pods", pods, waiting or gated)  # as many as join together
        elif lacking > waiting:
            assert pods in {waiting, gated}  # what is gated, or not there, is another reason
        else:
            self.same("explain.waterfall[].pods", pods, lacking if lacking > 0 else waiting or gated)

    def inside(self, miss: NearestDomain) -> list[str]:
        """Return the nodes of the domain where a gang comes closest to finding room."""
        domain, nodes = miss.domain.rpartition("/")[2], self.objects.nodes.items()
        return [name for name, node in nodes if miss.level == "cluster" or node.labels.get(miss.level) == domain]

    def nearest(self, shown: Explanation, ref: GroupRef) -> None:
        """Compare where a gang of one shape comes closest to finding room, and what is short there by itself."""
        miss, objects = shown.nearest_miss, self.objects
        if miss is None:
            return
        assert miss.fits < miss.needed
        waiting = [pod for pod in objects.members(ref) if state_of(pod, objects.promised) is MemberState.WAITING]
        shapes = {(pod.shape, claimed(pod)) for pod in waiting}
        bound = any(pod.node_name for pod in objects.members(ref))
        tree = Standing(objects, ref).tree
        inner = tree is not None and within_domains(Standing(objects, ref))
        if len(shapes) != 1 or bound or inner or shown.reason is None or shown.reason.code == Reason.BEHIND_HEAD:
            return
        ((shape, devices),) = shapes
        usable = [name for name in self.inside(miss) if objects.takes_pods(name) and objects.suits(name, waiting[0])]
        requests = (*shape.requests, (GPU, devices))

        def room(resource: str | None) -> int:
            """Return how many pods have room, by one resource alone or by all."""
            asked = [each for each in requests if each[1] and resource in {None, each[0]}]
            return sum(min(objects.free(name, key) // amount for key, amount in asked) for name in usable)

        self.within("explain.nearestMiss.needed", miss.needed, len(waiting))
        if any(step.cause == NodeCause.KEPT_FOR_HEAD for fall in shown.waterfall for step in fall.steps):
            self.within("explain.nearestMiss.fits", miss.fits, min(room(None), miss.needed))
            return  # how much is kept on which node is not among the objects
        self.same("explain.nearestMiss.fits", miss.fits, min(room(None), miss.needed))
        short = {resource for resource, amount in requests if amount and room(resource) < miss.needed}
        assert devices or set(miss.lacks) - {GPU} <= short, f"{miss.lacks} is said to be short beside {short}"


def within_domains(standing: Standing) -> bool:
    """Tell whether a gang, or a part of it, has to be in one domain."""
    parts = () if standing.tree is None else all_of(standing.tree)
    return bool(standing.group.options.topology.required) or any(part.required for part in parts)
