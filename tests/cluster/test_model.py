"""ClusterModel: who claims what, whichever scheduler bound it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.cluster.model import ClusterModel, PodChange
from extender.objects.pod import Phase
from extender.objects.podgroup import NO_GROUP, PodGroup
from tests.cluster.conftest import GPU, group_ref, node, pod

JOB, OTHER = group_ref("job"), group_ref("other")


@pytest.fixture
def model() -> ClusterModel:
    """Return a model of two GPU nodes, for the scheduler `muster`."""
    model = ClusterModel(["muster", "muster-spread"])
    model.put_node(node("a", gpus=8))
    model.put_node(node("b", gpus=8))
    return model


def gpus(model: ClusterModel, column: str = "used") -> list[int]:
    """Return how many GPUs are claimed on each node."""
    table = model.table
    matrix = getattr(table, column)
    return [int(value) for value in matrix[table.resources.index(GPU), : table.rows]]


def test_bound_pod_claims(model: ClusterModel) -> None:
    """A bound pod claims its request until it has ended; a pod that waits claims nothing."""
    waiting = pod("p", gpus=2)
    model.put_pod(waiting, 0)
    assert gpus(model) == [0, 0]
    model.put_pod(replace(waiting, node_name="b"), 0)
    assert gpus(model) == [0, 2]
    model.put_pod(replace(waiting, node_name="b", phase=Phase.RUNNING), 0)
    assert gpus(model) == [0, 2]


@pytest.mark.parametrize("end", [Phase.SUCCEEDED, Phase.FAILED])
def test_ended_pod_claims_nothing(model: ClusterModel, end: Phase) -> None:
    """A pod that ended gives its room back before it is deleted, also when it is first heard of in that state."""
    running = pod("p", gpus=2, node_name="a", phase=Phase.RUNNING)
    model.put_pod(running, 0)
    model.put_pod(replace(running, phase=end), 0)
    model.put_pod(pod("q", gpus=2, node_name="a", phase=end), 0)
    assert gpus(model) == [0, 0]


def test_terminating_pod_claims_until_it_is_gone(model: ClusterModel) -> None:
    """A pod that is being deleted holds its room to the end."""
    leaving = pod("p", gpus=2, node_name="a", phase=Phase.RUNNING, deleting=True)
    model.put_pod(leaving, 0)
    assert gpus(model) == [2, 0]
    model.drop_pod(leaving.uid)
    assert gpus(model) == [0, 0]


def test_claim_of_a_bound_pod_takes_the_place_of_its_reservation(model: ClusterModel) -> None:
    """From reservation to binding the room is taken once, without a gap; on another node the promise moves along."""
    member = pod("p", gpus=2)
    model.put_pod(member, 0)
    model.table.claim(member.uid, "a", member.shape)
    model.put_pod(replace(member, nominated_node="a"), 0)
    assert gpus(model) == [2, 0]
    generation = model.table.generation
    model.put_pod(replace(member, node_name="a"), 0)
    assert (gpus(model), model.table.generation) == ([2, 0], generation)
    model.put_pod(replace(member, node_name="b"), 0)
    assert gpus(model) == [0, 2]


def test_pod_that_ends_unbound_gives_up_its_reservation(model: ClusterModel) -> None:
    """A promise to a pod that will never run is void."""
    member = pod("p", gpus=2)
    model.put_pod(member, 0)
    model.table.claim(member.uid, "a", member.shape)
    model.put_pod(replace(member, phase=Phase.FAILED), 0)
    assert gpus(model) == [0, 0]


def test_pod_shown_unbound_again_claims_nothing(model: ClusterModel) -> None:
    """What the API server shows last counts, even if it takes a binding back."""
    bound = pod("p", gpus=2, node_name="a")
    model.put_pod(bound, 0)
    model.put_pod(replace(bound, node_name=""), 0)
    assert gpus(model) == [0, 0]


def test_resize_changes_the_claim(model: ClusterModel) -> None:
    """A bound pod whose request changed claims the new one."""
    bound = pod("p", gpus=2, node_name="a")
    model.put_pod(bound, 0)
    model.put_pod(replace(bound, shape=pod("p", gpus=3).shape), 0)
    assert gpus(model) == [3, 0]


def test_foreign_pods_claim_for_good(model: ClusterModel) -> None:
    """Pods of other schedulers are counted as lasting, those of any of Muster's own are not."""
    model.put_pod(pod("daemon", gpus=1, node_name="a", scheduler_name="default-scheduler"), 0)
    model.put_pod(pod("ours", gpus=2, node_name="a"), 0)
    model.put_pod(pod("ours-too", gpus=4, node_name="a", scheduler_name="muster-spread"), 0)
    assert (gpus(model), gpus(model, "lasting")) == ([7, 0], [1, 0])


def test_pods_before_their_node(model: ClusterModel) -> None:
    """Pods may be listed before the node they run on; a node that returns finds its pods again."""
    model.put_pod(pod("p", gpus=2, node_name="late"), 0)
    assert model.put_node(node("late", gpus=8))
    assert gpus(model) == [0, 0, 2]
    assert model.drop_node("late")
    assert not model.drop_node("late")
    model.put_node(node("late", gpus=8))
    assert gpus(model) == [0, 0, 2]


def test_relabelled_pod_changes_gangs(model: ClusterModel) -> None:
    """A pod whose label is edited leaves one gang for another; a gang without anything left is forgotten."""
    first, second = pod("p-0", group=JOB), pod("p-1", group=JOB)
    model.put_pod(first, 0)
    model.put_pod(second, 0)
    moved = replace(first, group=OTHER)
    change = model.put_pod(moved, 1)
    assert change == PodChange(first, moved, model.gangs.get(OTHER))
    assert [gang.ref.name for gang in model.gangs] == ["job", "other"]
    job = model.gang_of(second)
    assert job is not None
    assert list(job.members) == [second.uid]
    alone = replace(second, group=NO_GROUP)
    model.put_pod(alone, 2)
    assert [gang.ref.name for gang in model.gangs] == ["other", "p-1"]
    assert model.gang_of(alone) is model.gangs.get(alone.group)


def test_a_foreign_pod_that_names_no_group_has_no_gang(model: ClusterModel) -> None:
    """Only a pod of Muster's is a gang of one; what another scheduler's pod holds is held all the same."""
    foreign = pod("p-0", node_name="a", scheduler_name="other")
    assert model.put_pod(foreign, 0).gang is None
    assert model.gang_of(foreign) is None
    assert len(model.gangs) == 0
    assert model.drop_pod(foreign.uid).gang is None


def test_changes_tell_before_and_after(model: ClusterModel) -> None:
    """Taking in a pod returns it before and after, with its gang; deleting an unknown one returns nothing."""
    member = pod("p", group=JOB)
    assert model.put_pod(member, 0) == PodChange(None, member, model.gangs.get(JOB))
    bound = replace(member, node_name="a")
    assert model.put_pod(bound, 0) == PodChange(member, bound, model.gangs.get(JOB))
    gang = model.gangs.get(JOB)
    assert model.drop_pod(member.uid) == PodChange(bound, None, gang)
    assert model.drop_pod(member.uid) == PodChange(None, None, None)
    assert (model.pods, len(model.gangs)) == ({}, 0)


def test_pod_created_anew_is_another_pod(model: ClusterModel) -> None:
    """A pod under an old name with a new UID inherits neither claim nor membership."""
    old = pod("p", gpus=2, node_name="a", group=JOB)
    model.put_pod(old, 0)
    new = replace(old, uid="uid-new", node_name="")
    model.put_pod(new, 1)
    model.drop_pod(old.uid)
    gang = model.gang_of(new)
    assert gang is not None
    assert (list(gang.members), gpus(model)) == (["uid-new"], [0, 0])


def test_pod_groups(model: ClusterModel) -> None:
    """PodGroups join the gangs; dropping one returns its gang."""
    gang, ended = model.gangs.put_group(PodGroup(JOB, "group-1", min_member=2), 0)
    assert (gang.min_member, ended) == (2, None)
    assert model.gangs.put_group(PodGroup(JOB, "group-2"), 0) == (gang, "group-1")
    assert model.gangs.drop_group(JOB, "group-1") is None
    assert model.gangs.drop_group(JOB, "group-2") is gang


def test_manages(model: ClusterModel) -> None:
    """Muster manages the pods that name one of its schedulers, and no others."""
    names = ["muster", "muster-spread", "default-scheduler", ""]
    assert [model.manages(pod("p", scheduler_name=name)) for name in names] == [True, True, False, False]
