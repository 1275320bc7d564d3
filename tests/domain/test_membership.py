"""A pod belongs to at most one gang, named by the first API that names any."""

from __future__ import annotations

import pytest

from extender.domain.keys import GANG
from extender.domain.membership import COSCHEDULING_LABEL, GroupApi, GroupRef, read_group
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
    """The coscheduling label goes before the native reference, that before the plain label; no name does not count."""
    assert read_group(spec, "default", labels) == GroupRef(api, "default", name)


@pytest.mark.parametrize("labels", [{}, {GANG: ""}, {COSCHEDULING_LABEL: ""}, {"app": "train"}])
def test_a_pod_that_names_no_gang_is_on_its_own(labels: dict[str, str]) -> None:
    """Without a name there is no gang."""
    assert read_group(wire.PodSpec(), "default", labels) is None


def test_a_gang_is_written_as_namespace_and_name() -> None:
    """People know a gang as `namespace/name`; gangs sort by API, namespace and name."""
    one, other = GroupRef(GroupApi.COSCHEDULING, "a", "x"), GroupRef(GroupApi.LABEL, "a", "x")
    assert str(one) == str(other) == "a/x"
    assert sorted([one, other]) == [other, one]
