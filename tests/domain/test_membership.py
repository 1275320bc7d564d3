"""A pod belongs to at most one gang, named by the first API that names any."""

from __future__ import annotations

import pytest

from extender.domain.keys import GANG
from extender.domain.membership import COSCHEDULING_LABEL, VOLCANO_ANNOTATIONS, GroupApi, GroupRef, read_group
from extender.wire import kubernetes as wire

NATIVE = wire.PodSpec(scheduling_group=wire.SchedulingGroup(pod_group_name="native"))
ALL_LABELS = {COSCHEDULING_LABEL: "coscheduling", GANG: "label"}


@pytest.mark.parametrize(
    ("spec", "labels", "api", "name"),
    [
        (NATIVE, ALL_LABELS, GroupApi.COSCHEDULING, "coscheduling"),
        (NATIVE, {GANG: "label"}, GroupApi.NATIVE, "native"),
        (wire.PodSpec(), {GANG: "label"}, GroupApi.LABEL, "label"),
        (NATIVE, {COSCHEDULING_LABEL: ""}, GroupApi.NATIVE, "native"),
        (wire.PodSpec(scheduling_group=wire.SchedulingGroup()), {GANG: "label"}, GroupApi.LABEL, "label"),
    ],
)
def test_the_first_api_that_names_a_gang_counts(
    spec: wire.PodSpec, labels: dict[str, str], api: GroupApi, name: str
) -> None:
    """The coscheduling label goes before the native reference, that before all others; no name does not count."""
    annotations = {"scheduling.k8s.io/group-name": "volcano"} if api in {GroupApi.COSCHEDULING, GroupApi.NATIVE} else {}
    assert read_group(spec, "default", labels, annotations) == GroupRef(api, "default", name)


@pytest.mark.parametrize("labels", [{}, {GANG: ""}, {COSCHEDULING_LABEL: ""}, {"app": "train"}])
def test_a_pod_that_names_no_gang_is_on_its_own(labels: dict[str, str]) -> None:
    """Without a name there is no gang."""
    assert read_group(wire.PodSpec(), "default", labels, dict.fromkeys(VOLCANO_ANNOTATIONS, "")) is None


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
    group = read_group(wire.PodSpec(), "default", {GANG: "label"}, annotations)
    assert group == GroupRef(GroupApi.VOLCANO, "default", "volcano")


def test_a_gang_is_written_as_namespace_and_name() -> None:
    """People know a gang as `namespace/name`; gangs sort by API, namespace and name."""
    one, other = GroupRef(GroupApi.COSCHEDULING, "a", "x"), GroupRef(GroupApi.LABEL, "a", "x")
    assert str(one) == str(other) == "a/x"
    assert sorted([one, other]) == [other, one]
