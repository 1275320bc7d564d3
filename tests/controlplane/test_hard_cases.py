"""What happens to a gang whose nodes, members or PodGroup change between plan and bind, on the real control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from localcluster.client import NAMESPACES, PODS
from localcluster.errors import ApiError
from localcluster.faults.fault import Hold
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.faults.verbs import VerbProxy
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: Seconds. Time enough for whatever should not happen to happen.
WATCHFUL = 1.0
BIND = Match(kind="bind")


@pytest.fixture
def one_in_barrier(cluster: Sandbox, faulty_muster: Server, verb_proxy: VerbProxy) -> Iterator[Callable[..., Gang]]:
    """Return a maker of gangs of which one member is in the barrier and the others are on their way to bind.

    The bind calls of the others are held on the way until `verb_proxy.clear()`.
    """
    verb_proxy.add(Rule(BIND, Hold(), times=FOREVER, after=1))

    def begin(**options: object) -> Gang:
        gang = cluster.gang("gang", **{"members": 4, "gpus": 8, **options})  # type: ignore[arg-type] # a gang's options
        cluster.wait_until(lambda: len(verb_proxy.bind_calls()) == len(gang.created), "all members sent to bind")
        return gang

    yield begin
    faulty_muster.check()


def lose_by_foreign_pod(cluster: Sandbox, node: str) -> None:
    """Fill a node with a pod that no scheduler was asked about."""
    cluster.pod(f"foreign-on-{node}", gpus=8, node_name=node)


#: Losses that Muster hears of in different ways; of the others, `make nightly` tells.
_DECIDING = frozenset({"drained", "shrunk", "filled by a foreign pod"})
LOSSES: dict[str, Callable[[Sandbox, str], None]] = {
    "cordoned": Sandbox.cordon,
    "tainted": lambda cluster, node: cluster.taint(node, "example.com/broken"),
    "drained": Sandbox.drain,
    "deleted": Sandbox.delete_node,
    "shrunk": lambda cluster, node: cluster.resize_node(node, gpus=4),
    "filled by a foreign pod": lose_by_foreign_pod,
}


@pytest.mark.parametrize(
    "loss", [pytest.param(loss, marks=() if loss in _DECIDING else pytest.mark.nightly) for loss in LOSSES]
)
def test_planned_nodes_that_are_lost_are_replaced(
    cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy, loss: str
) -> None:
    """Two planned nodes are lost, of the member in the barrier and of one on its way: others take their place."""
    cluster.nodes(6, gpus=8)
    gang = one_in_barrier()
    first, second, *_ = verb_proxy.bind_calls()
    for call in (first, second):
        LOSSES[loss](cluster, call.node)
    moved = [member for member in gang.members if member.uid in {first.uid, second.uid}]
    lost = {first.node, second.node}
    cluster.wait_until(
        lambda: all(member.nominated_node not in {None, *lost} for member in moved), f"{moved} nominated elsewhere"
    )
    assert not gang.bound
    verb_proxy.clear()
    gang.wait_bound(4, timeout=30)
    assert not lost & set(gang.nodes)
    assert len([binding for binding in cluster.bindings() if binding.pod.startswith("gang")]) == 4


def test_member_deleted_in_the_barrier_releases_the_others(
    cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
) -> None:
    """A gang that loses a member in the barrier binds nothing and gives its nodes back; a new member starts it."""
    cluster.nodes(4, gpus=8)
    gang = one_in_barrier()
    (held, *_) = verb_proxy.bind_calls()
    member = next(member for member in gang.members if member.uid == held.uid)
    member.delete()
    gang.wait_condition("False", "MembersMissing")
    cluster.wait_until(lambda: not any(member.nominated_node for member in gang.members), "nominations withdrawn")
    verb_proxy.clear()
    assert cluster.stays_true(lambda: not gang.bound, WATCHFUL)
    member.create()
    gang.wait_bound(4, timeout=30)
    assert held.uid not in {binding.uid for binding in cluster.bindings()}


class TestPodGroup:
    """The PodGroup changes while its members are on their way to bind."""

    def test_deleted_podgroup_holds_nothing(
        self, cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
    ) -> None:
        """No member of a gang without PodGroup is bound, and its nodes go to others."""
        cluster.nodes(4, gpus=8)
        gang = one_in_barrier()
        gang.delete_group()
        # Nominations alone say nothing: a pod that went straight to bind was never nominated.
        cluster.wait_until(lambda: verb_proxy.bind_calls()[0].status is not None, "the member in the barrier sent back")
        cluster.wait_until(lambda: not any(member.nominated_node for member in gang.members), "nominations withdrawn")
        verb_proxy.clear()
        other = cluster.gang("other", members=4, gpus=8)
        other.wait_bound(4, timeout=30)
        assert not gang.bound

    def test_podgroup_created_anew_inherits_nothing(
        self, cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
    ) -> None:
        """A PodGroup deleted and created again under its name starts by its own minMember, with the same pods."""
        cluster.nodes(6, gpus=8)
        gang = one_in_barrier(members=5, min_member=4, create=4)
        gang.delete_group()
        gang.edit(min_member=5)
        gang.create_group()
        gang.wait_condition("False", "MembersMissing")
        verb_proxy.clear()
        assert cluster.stays_true(lambda: not gang.bound, WATCHFUL)
        gang.create()
        gang.wait_bound(5, timeout=30)

    def test_raised_min_member_holds_the_gang_back(
        self, cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
    ) -> None:
        """A gang whose minMember is raised while it is reserved waits for the further member, and binds none before."""
        cluster.nodes(6, gpus=8)
        gang = one_in_barrier(members=5, min_member=4, create=4)
        gang.edit_group(5)
        gang.wait_condition("False", "MembersMissing")
        verb_proxy.clear()
        assert cluster.stays_true(lambda: not gang.bound, WATCHFUL)
        gang.create()
        gang.wait_bound(5, timeout=30)

    def test_lowered_min_member_lets_the_gang_go(
        self, cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
    ) -> None:
        """With minMember lowered to one, the member in the barrier is bound; the others follow when they arrive."""
        cluster.nodes(4, gpus=8)
        gang = one_in_barrier()
        gang.edit_group(1)
        gang.wait_bound(1)
        assert [binding.uid for binding in cluster.bindings()] == [verb_proxy.bind_calls()[0].uid]
        verb_proxy.clear()
        gang.wait_bound(4, timeout=30)


def test_gang_of_a_terminating_namespace_holds_nothing(
    cluster: Sandbox, one_in_barrier: Callable[..., Gang], verb_proxy: VerbProxy
) -> None:
    """A gang whose namespace is being deleted is not bound, and its nodes go to others.

    Here the namespace and then its pods are marked by hand: no kube-controller-manager runs that would delete the pods.
    The API server's part is real: nothing can be created in a terminating namespace, Bindings and Events included.
    """
    cluster.nodes(4, gpus=8)
    with cluster.namespace("doomed") as doomed:
        gang = one_in_barrier(namespace=doomed, finalizers=("example.com/story",))
        cluster.api.delete(NAMESPACES, doomed)
        with pytest.raises(ApiError, match="being terminated"):
            cluster.pod("late", namespace=doomed)
        cluster.api.delete_all(PODS, doomed)
        verb_proxy.clear()
        other = cluster.gang("other", members=4, gpus=8)
        other.wait_bound(4, timeout=30)
        assert not gang.bound
        assert all(member.exists for member in gang.members)


def test_gangs_that_can_only_alternate_all_run(cluster: Sandbox, faulty_muster: Server) -> None:
    """Two rounds of two gangs that each need every node run one after the other, never two at once."""
    cluster.nodes(4, gpus=8)
    gangs = [cluster.gang(name, members=4, gpus=8, create=0, run_seconds=1) for name in ("a-0", "b-0", "a-1", "b-1")]
    cluster.interleave(*gangs)
    for gang in gangs:
        gang.wait_phase("Succeeded", 30)
    assert max(cluster.peak_gpus().values()) == 8
    order = [binding.pod.rpartition("-")[0] for binding in sorted(cluster.bindings(), key=lambda binding: binding.at)]
    assert order == sorted(order, key=order.index)
    faulty_muster.check()


def test_single_pod_takes_the_place_of_an_extra_member_first_then_of_a_whole_gang(
    cluster: Sandbox, faulty_muster: Server
) -> None:
    """A single pod of higher priority evicts a member beyond minMember; a gang at its minimum leaves whole."""
    urgent = cluster.priority_class("urgent", 1000)
    cluster.nodes(4, gpus=8)
    gang = cluster.gang("gang", members=4, min_member=3, gpus=8)
    gang.wait_running(4)
    first = cluster.pod("first", gpus=8, priority_class=urgent)
    first.wait_bound(30)
    assert len(gang.bound) == 3
    second = cluster.pod("second", gpus=8, priority_class=urgent)
    second.wait_bound(30)
    cluster.wait_until(lambda: not gang.bound, "the rest of the gang has left")
    faulty_muster.check()
