"""A pod belongs to at most one gang, named by the first API that names any."""

from __future__ import annotations

import pytest

from extender.objects.keys import GANG
from extender.objects.pod import read_pod
from extender.objects.podgroup import GroupRef
from extender.objects.podoptions import read_group
from extender.objects.podspec import PodSpec, SchedulingGroup, decode_pod
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_LABEL
from extender.objects.sources.disaggregatedset import DISAGGREGATED_SET
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kubeflow import KUBEFLOW
from extender.objects.sources.kueue import KUEUE
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.native import NATIVE
from extender.objects.sources.ray import RAY
from extender.objects.sources.table import LABEL, SOURCE_OF
from extender.objects.sources.volcano import VOLCANO, VOLCANO_ANNOTATIONS
from tests.builders import pod_json, written

IN_SPEC = PodSpec(scheduling_group=SchedulingGroup(pod_group_name="native"))
ALL_LABELS = {COSCHEDULING_LABEL: "coscheduling", GANG: "label"}


@pytest.mark.parametrize(
    ("spec", "labels", "api", "name"),
    [
        (IN_SPEC, ALL_LABELS, COSCHEDULING, "coscheduling"),
        (IN_SPEC, {GANG: "label"}, NATIVE, "native"),
        (PodSpec(), {GANG: "label"}, LABEL, "label"),
        (IN_SPEC, {COSCHEDULING_LABEL: ""}, NATIVE, "native"),
        (PodSpec(scheduling_group=SchedulingGroup()), {GANG: "label"}, LABEL, "label"),
    ],
)
def test_the_first_api_that_names_a_gang_counts(spec: PodSpec, labels: dict[str, str], api: str, name: str) -> None:
    """The coscheduling label goes before the native reference, that before all others; no name does not count."""
    annotations = {"scheduling.k8s.io/group-name": "volcano"} if api in {COSCHEDULING, NATIVE} else {}
    assert read_group(spec, "default", labels, annotations) == GroupRef(api, "default", name)


@pytest.mark.parametrize("labels", [{}, {GANG: ""}, {COSCHEDULING_LABEL: ""}, {"app": "train"}])
def test_a_pod_that_names_no_gang_is_on_its_own(labels: dict[str, str]) -> None:
    """Without a name there is no gang."""
    assert read_group(PodSpec(), "default", labels, dict.fromkeys(VOLCANO_ANNOTATIONS, "")) is None


@pytest.mark.parametrize(
    "annotations",
    [
        {"scheduling.k8s.io/group-name": "volcano"},
        {"scheduling.volcano.sh/group-name": "volcano"},
        {"scheduling.k8s.io/group-name": "volcano", "scheduling.volcano.sh/group-name": "other"},
        {"scheduling.k8s.io/group-name": "", "scheduling.volcano.sh/group-name": "volcano"},
    ],
)
def test_volcanos_annotations_name_a_gang(annotations: dict[str, str]) -> None:
    """Volcano names a gang by either of two annotations, the usual one first, and before the plain label."""
    group = read_group(PodSpec(), "default", {GANG: "label"}, annotations)
    assert group == GroupRef(VOLCANO, "default", "volcano")


#: What the pods of each operator carry, in the order in which the adapters are asked, and what their gang is called.
OPERATORS: tuple[tuple[str, dict[str, str], str], ...] = (
    (KUEUE, {"kueue.x-k8s.io/pod-group-name": "group"}, "group"),
    (JOBSET, {"jobset.sigs.k8s.io/jobset-name": "set"}, "set"),
    (
        DISAGGREGATED_SET,
        {
            "disaggregatedset.x-k8s.io/name": "llm",
            "disaggregatedset.x-k8s.io/slice": "0",
            "disaggregatedset.x-k8s.io/revision": "5d8c",
            "leaderworkerset.sigs.k8s.io/group-index": "2",
        },
        "llm-0-5d8c",
    ),
    (
        LEADER_WORKER_SET,
        {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "2"},
        "llm-2",
    ),
    (KUBEFLOW, {"training.kubeflow.org/job-name": "train"}, "train"),
    (RAY, {"ray.io/cluster": "ray", "ray.io/node-type": "worker"}, "ray"),
    (LABEL, {GANG: "label"}, "label"),
)


@pytest.mark.parametrize("place", range(len(OPERATORS)), ids=[api for api, _, _ in OPERATORS])
def test_the_pods_of_operators_name_their_gang(place: int) -> None:
    """A pod's gang is that of the first operator in this order, and the plain label comes last."""
    api, _, name = OPERATORS[place]
    labels = {key: text for _, keyed, _ in OPERATORS[place:] for key, text in keyed.items()}
    assert read_group(PodSpec(), "default", labels, {}) == GroupRef(api, "default", name)


@pytest.mark.parametrize("labels", [labels for _, labels, _ in OPERATORS])
@pytest.mark.parametrize(
    ("spec", "own", "annotations", "name"),
    [
        (PodSpec(), {COSCHEDULING_LABEL: "coscheduling"}, {}, "coscheduling"),
        (IN_SPEC, {}, {}, "native"),
        (PodSpec(), {}, {"scheduling.k8s.io/group-name": "volcano"}, "volcano"),
    ],
)
def test_a_pod_group_counts_before_its_operator(
    spec: PodSpec, own: dict[str, str], labels: dict[str, str], annotations: dict[str, str], name: str
) -> None:
    """Where an operator writes a PodGroup for its pods, that describes the gang."""
    group = read_group(spec, "default", labels | own, annotations)
    assert group is not None
    assert (group.name, SOURCE_OF[group.api].noun) == (name, "PodGroup")


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({"leaderworkerset.sigs.k8s.io/name": "llm"}, {}),
        ({"ray.io/cluster": "ray"}, {}),
        ({"ray.io/cluster": "ray", "ray.io/node-type": "redis-cleanup"}, {}),
        (
            {"kueue.x-k8s.io/pod-group-name": "statefulset"},
            {"kueue.x-k8s.io/pod-group-serving": "true", "kueue.x-k8s.io/pod-group-fast-admission": "true"},
        ),
    ],
)
def test_pods_that_need_not_start_together_are_no_gang(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Pods of a StatefulSet under Kueue come one by one, and what cleans up after a Ray cluster is none of it."""
    assert read_group(PodSpec(), "default", labels, annotations) is None


@pytest.mark.parametrize(
    "annotations", [{"kueue.x-k8s.io/pod-group-serving": "true"}, {"kueue.x-k8s.io/pod-group-fast-admission": "true"}]
)
def test_other_groups_of_kueue_are_gangs(annotations: dict[str, str]) -> None:
    """Either annotation alone says how Kueue admits the group, not that its pods come one by one."""
    group = read_group(PodSpec(), "default", {"kueue.x-k8s.io/pod-group-name": "group"}, annotations)
    assert group == GroupRef(KUEUE, "default", "group")


@pytest.mark.parametrize(
    ("api", "annotation"),
    [
        (KUEUE, "kueue.x-k8s.io/pod-group-total-count"),
        (LEADER_WORKER_SET, "leaderworkerset.sigs.k8s.io/size"),
        (LABEL, "muster.dev/min-member"),
    ],
)
def test_pods_without_an_object_say_how_many_they_are(api: str, annotation: str) -> None:
    """Each API without an object has an annotation for that; what is no number is a problem that names it."""
    assert SOURCE_OF[api].size_annotation == annotation
    good, bad = (
        read_pod(decode_pod(written(pod_json("p", annotations={annotation: text})))).options for text in ("4", "four")
    )
    assert (good.min_member, good.problems) == (4, ())
    assert (bad.min_member, [problem.field for problem in bad.problems]) == (
        None,
        [f"metadata.annotations[{annotation}]"],
    )


def test_musters_own_number_counts_before_an_operators() -> None:
    """A gang of Kueue's or of a LeaderWorkerSet may start with fewer pods, if people say so."""
    both = {"muster.dev/min-member": "2", "leaderworkerset.sigs.k8s.io/size": "4"}
    assert read_pod(decode_pod(written(pod_json("p", annotations=both)))).options.min_member == 2


def test_a_gang_is_written_as_namespace_and_name() -> None:
    """People know a gang as `namespace/name`; gangs sort by API, namespace and name."""
    one, other = GroupRef(COSCHEDULING, "a", "x"), GroupRef(LABEL, "a", "x")
    assert str(one) == str(other) == "a/x"
    assert sorted([one, other]) == [other, one]
