"""A pod is what it asks for, where it is, and whom it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from extender.objects import keys
from extender.objects.meta import Selector
from extender.objects.pod import Phase, Pod, Shape, read_pod
from extender.objects.podgroup import GroupRef
from extender.objects.podoptions import RoleRank
from extender.objects.podspec import PodObject, Toleration, decode_pod
from extender.objects.reason import Problem
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_LABEL
from tests.builders import CREATED, GPU, Json, container_json, pod, pod_json, shape, written
from tests.objects.documents import load, survivors

INDEX = "batch.kubernetes.io/job-completion-index"


def read(document: Json, default_priority: int = 0) -> Pod:
    """Read a pod given as JSON."""
    return read_pod(decode_pod(written(document)), default_priority)


def test_a_pod_is_read_whole() -> None:
    """Identity, shape, gang, role, rank, priority, scheduler and place are taken over."""
    document = pod_json(
        "worker-3",
        gpus=8,
        gang="train",
        node="node-1",
        labels={keys.ROLE: "worker", INDEX: "3"},
        annotations={keys.PLACEMENT: "spread"},
        spec={
            "priority": 1000,
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        },
    )
    assert read(document) == Pod(
        uid="uid-worker-3",
        namespace="default",
        name="worker-3",
        shape=Shape(
            (("cpu", 1000), (GPU, 8), ("pods", 1)), Selector((("zone", "a"),)), (Toleration(GPU, "Exists", "", ""),)
        ),
        created=CREATED,
        group=GroupRef(COSCHEDULING, "default", "train"),
        role="worker",
        rank=RoleRank(role="worker", indices=(3,)),
        priority=1000,
        scheduler_name="muster",
        node_name="node-1",
        phase=Phase.RUNNING,
        options=keys.Options(packing=keys.Packing.SPREAD),
        labels={COSCHEDULING_LABEL: "train", keys.ROLE: "worker", INDEX: "3"},
    )


def test_an_empty_object_is_a_pending_pod() -> None:
    """A pod that says nothing is a pending pod of the default scheduler, alone, and takes one of `pods`."""
    assert read({}) == Pod(uid="", namespace="", name="", shape=Shape((("pods", 1),)))


def test_a_pod_is_known_by_namespace_and_name() -> None:
    """The key that people see is `namespace/name`."""
    assert pod("worker").key == "default/worker"


def test_a_nomination_is_replaced_and_nothing_else() -> None:
    """A pod with another nomination is another value; with the one that it has it is itself."""
    nominated = pod("a").nominated_to("node-1")
    assert nominated == pod("a", nominated_node="node-1")
    assert nominated.nominated_to("node-1") is nominated


def test_pods_of_equal_shape_share_one_shape() -> None:
    """Pods that ask for the same hold the very same object, so that comparing them costs nothing."""
    first, second = read(pod_json("a", gpus=8)), read(pod_json("b", gpus=8))
    assert first.shape is second.shape
    assert read(pod_json("c", gpus=4)).shape is not first.shape


def test_pods_share_what_they_have_in_common() -> None:
    """Namespace, node and scheduler of 50,000 pods are a few texts, and each is kept once."""
    one, other = read(pod_json("a", node="node-1")), read(pod_json("b", node="node-1"))
    assert one.namespace is other.namespace
    assert one.node_name is other.node_name
    assert one.scheduler_name is other.scheduler_name


def test_pods_share_what_they_ask_for_their_gang() -> None:
    """Options and ranks are one object where they are equal, since 50,000 pods have few of them."""
    annotations = {keys.PLACEMENT: "spread", "kueue.x-k8s.io/podset-required-topology": "rack"}
    one, other = (read(pod_json(name, labels={INDEX: "3"}, annotations=annotations)) for name in "ab")
    assert one.options is other.options
    assert one.options.peers.required == "rack"
    assert one.rank is other.rank


def test_a_pod_without_gang_has_one_placement() -> None:
    """What its annotation says of the resources that it asks for is settled; a member's gang settles it for all."""
    annotations = {keys.PLACEMENT: f"{GPU}=binpack,cpu=spread"}
    assert read(pod_json(annotations=annotations)).options == keys.Options(packing=keys.Packing.SPREAD)
    assert read(pod_json(gpus=8, annotations=annotations)).options == keys.Options(packing=keys.Packing.BINPACK)
    assert read(pod_json(gang="train", annotations=annotations)).options.packing is None


def test_problems_of_all_keys_are_kept() -> None:
    """What is wrong with Muster's own keys, with other schedulers' and with what a pod holds is all told."""
    annotations = {
        keys.OBJECTIVE: "best",
        "kueue.x-k8s.io/podset-required-topology": "two racks",
        "muster.dev/observed-gpus": "first",
    }
    fields = [problem.field for problem in read(pod_json(annotations=annotations)).options.problems]
    assert fields == [f"metadata.annotations[{key}]" for key in annotations]


def test_shapes_compare_by_content() -> None:
    """Equal content makes equal shapes and equal hashes; any difference makes them different."""
    tolerant = Toleration("", "Exists", "", "")
    one = same = shape(8)
    assert one == same == shape(8)
    assert hash(shape(8)) == hash(shape(8))
    assert len({shape(8), shape(4), shape(8, selector=Selector((("a", "b"),))), shape(8, tolerations=(tolerant,))}) == 4
    assert shape(8) != shape(8).requests


def test_shapes_are_different_even_where_their_hashes_agree() -> None:
    """Equal hashes alone do not make shapes equal."""
    ones, twos = Shape((("a", -1),)), Shape((("a", -2),))  # CPython hashes -1 and -2 alike
    assert hash(ones) == hash(twos)
    assert ones != twos


def test_a_shape_tells_what_it_takes() -> None:
    """A resource that is not asked for is asked for zero times."""
    assert shape(8).request(GPU) == 8
    assert shape(8).request("memory") == 0


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        (None, Phase.PENDING),
        ("", Phase.PENDING),
        ("Pending", Phase.PENDING),
        ("Succeeded", Phase.SUCCEEDED),
        ("Odd", Phase.UNKNOWN),
    ],
)
def test_a_phase_is_known_or_unknown(text: str | None, phase: Phase) -> None:
    """No phase means pending; a phase that Kubernetes does not have is Unknown."""
    assert read({"status": {"phase": text}}).phase is phase


@pytest.mark.parametrize(
    ("changes", "done", "bound", "placeable"),
    [
        ({}, False, False, True),
        ({"node_name": "a"}, False, True, False),
        ({"node_name": "a", "phase": Phase.RUNNING}, False, True, False),
        ({"node_name": "a", "phase": Phase.RUNNING, "deleting": True}, False, True, False),
        ({"node_name": "a", "phase": Phase.SUCCEEDED}, True, False, False),
        ({"node_name": "a", "phase": Phase.FAILED}, True, False, False),
        ({"phase": Phase.FAILED}, True, False, False),
        ({"gated": True}, False, False, False),
        ({"deleting": True}, False, False, False),
        ({"nominated_node": "a"}, False, False, True),
    ],
)
def test_a_pod_is_placeable_bound_or_done(changes: dict[str, object], done: bool, bound: bool, placeable: bool) -> None:
    """A pod holds its node from binding to its end, and can be given one while it is pending, ungated and staying."""
    changed = replace(pod(), **changes)  # type: ignore[arg-type]  # fields of Pod
    assert (changed.done, changed.bound, changed.placeable) == (done, bound, placeable)


def test_gates_nomination_and_deletion_are_seen() -> None:
    """A scheduling gate, a nominated node and a deletion under way are taken over."""
    document = pod_json(spec={"schedulingGates": [{"name": "wait"}]}, status={"nominatedNodeName": "a"})
    document["metadata"]["deletionTimestamp"] = CREATED
    seen = read(document)
    assert (seen.gated, seen.nominated_node, seen.deleting) == (True, "a", True)
    assert not read(pod_json(spec={"schedulingGates": []})).gated


@pytest.mark.parametrize(
    ("owners", "controller"),
    [(None, ""), ([], ""), ([{"uid": "a"}], ""), ([{"uid": "a"}, {"uid": "b", "controller": True}], "b")],
)
def test_a_pod_knows_what_makes_it_again(owners: list[dict[str, object]] | None, controller: str) -> None:
    """Of the objects that it belongs to the one that is its controller."""
    document = pod_json()
    document["metadata"]["ownerReferences"] = owners
    assert read(document).controller == controller


def test_a_pod_without_priority_has_the_default() -> None:
    """A pod's own priority counts, zero too; one that names none has the default."""
    assert read(pod_json(), default_priority=7).priority == 7
    assert read(pod_json(spec={"priority": 0}), default_priority=7).priority == 0
    assert read(pod_json()).priority == 0


@pytest.mark.parametrize(
    ("conditions", "refusal"),
    [
        ([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}], "0/1 nodes"),
        ([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}], "Unschedulable"),
        ([{"type": "PodScheduled", "status": "False"}], ""),
        ([{"type": "Ready", "status": "False", "message": "no"}], ""),
        ([{"type": "PodScheduled", "status": "True", "message": "yes"}], ""),
        ([], ""),
    ],
)
def test_a_refusal_is_kube_schedulers_own_words(conditions: list[Json], refusal: str) -> None:
    """A PodScheduled condition that is False says why, by message or else by reason."""
    assert read(pod_json(status={"conditions": conditions})).refusal == refusal


def test_what_sharing_goes_by_is_read() -> None:
    """Whether it may preempt, how long it may run and since when it does, and which gates it has."""
    plain = read(pod_json())
    assert (plain.never_preempts, plain.active_deadline, plain.started_at, plain.gates) == (False, None, None, ())
    spec = {
        "preemptionPolicy": "Never",
        "activeDeadlineSeconds": 3600,
        "schedulingGates": [{"name": keys.ADMISSION_GATE}, {"name": "example.com/wait"}],
    }
    told = read(pod_json(spec=spec, status={"startTime": "2026-01-01T00:00:00Z"}))
    assert (told.never_preempts, told.active_deadline, told.started_at) == (True, 3600.0, 1767225600.0)
    assert told.gates == (keys.ADMISSION_GATE, "example.com/wait")
    assert told.gated
    assert not read(pod_json(spec={"preemptionPolicy": "PreemptLowerPriority"})).never_preempts


def test_kueues_label_on_a_pod_is_read_beside_musters_own() -> None:
    """A pod that Kueue has nothing to do with may say its queue in Kueue's word, alone or as a member of a gang."""
    label = {"kueue.x-k8s.io/queue-name": "research"}
    own = label | {keys.QUEUE: "own"}
    for labels, gang, queue in ((label, "", ""), (own, "", "own"), (label, "train", "")):
        options = read(pod_json(gang=gang, labels=labels)).options
        assert (options.queue, options.peer_queue) == (queue, "research")


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({"kueue.x-k8s.io/managed": "true"}, {}),
        ({"kueue.x-k8s.io/podset": "main"}, {}),
        ({}, {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
    ],
    ids=["managed", "of an admitted workload", "gated"],
)
def test_the_queue_of_a_pod_that_kueue_manages_is_kueues_affair(labels: dict[str, str], spec: Json) -> None:
    """Its quota has been, or will be, granted there: Muster knows no queue of that name."""
    pod = read(pod_json(labels=labels | {"kueue.x-k8s.io/queue-name": "research"}, spec=spec))
    assert (pod.options.queue, pod.options.peer_queue) == ("", "")


def test_a_queue_is_one_object_for_all_who_name_it() -> None:
    """Options that name a queue are shared as others are."""
    one, other = (read(pod_json(name, labels={keys.QUEUE: "research"})) for name in "ab")
    assert one.options is other.options
    assert one.options.queue == "research"


def test_an_unreadable_request_is_a_problem() -> None:
    """A pod whose request cannot be read counts as one pod, and says which field is to blame."""
    broken = read(pod_json(spec={"containers": [container_json(requests={"cpu": "1", GPU: "-8"})]}))
    assert broken.shape == Shape((("pods", 1),))
    assert broken.problem == Problem("spec.containers[0].resources.requests.nvidia.com/gpu", "'-8' is negative")


BUSY = pod_json(
    gpus=8,
    gang="train",
    node="node",
    labels={INDEX: "3", keys.GANG: "x", "muster.dev/odd": ""},
    annotations={keys.MIN_MEMBER: "3", keys.PLACEMENT: "spread"},
    spec={
        "tolerations": [{"key": "a", "operator": "Gt", "value": "3"}],
        "priority": 3,
        "schedulingGroup": {"podGroupName": "g"},
    },
    status={"conditions": [{"type": "PodScheduled", "status": "False", "message": "no"}]},
)


@given(document=survivors(decode_pod, BUSY))
def test_any_pod_can_be_read(document: PodObject) -> None:
    """No pod that can be decoded raises; reading it again gives an equal value of the same shape."""
    value = read_pod(document)
    assert read_pod(document) == value
    assert value.shape.request("pods") == 1
    assert all(0 < amount < 2**63 for _, amount in value.shape.requests)


@given(document=survivors(decode_pod, load("objects/data/objects.json")["Pod"]))
def test_any_full_pod_can_be_read(document: PodObject) -> None:
    """The same holds for a pod with every field set."""
    assert read_pod(document).shape.request("pods") == 1
