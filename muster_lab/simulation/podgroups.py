"""By what the pods of a scenario are a gang: a PodGroup in one of three APIs, or nothing, each being one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from extender.admission.events import GroupSeen
from extender.cluster.membership import tree
from extender.control.watched import Known
from extender.objects import keys
from extender.objects.podgroup import POD, GroupRef
from extender.objects.sources.coscheduling import (
    COSCHEDULING,
    COSCHEDULING_LABEL,
    COSCHEDULING_POD_GROUPS,
    CoschedulingPodGroup,
)
from extender.objects.sources.native import NATIVE, NATIVE_POD_GROUPS, NativePodGroup
from extender.objects.sources.volcano import VOLCANO, VOLCANO_ANNOTATIONS, VOLCANO_POD_GROUPS, VolcanoPodGroup
from muster_lab.simulation.objects import ROWS, Json, Stored
from muster_lab.simulation.scenario import GangSource, ScenarioGang

#: The label by which a budget selects the pods of a gang whose PodGroup is not one of a label.
#: Source: k8s.io/api/batch/v1 JobNameLabel.
_JOB_LABEL: Final = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, slots=True)
class GroupApi:
    """An API of PodGroups.

    Attributes:
        api: what Muster calls it.
        collection: where its PodGroups are.
        struct: how they are read.
        stated: the fields of the spec that a scenario's gang says by itself.
        spec: returns these fields.
        pod: returns what makes a pod a member: a part of its manifest.
    """

    api: str
    collection: str
    struct: type[msgspec.Struct]
    stated: frozenset[str]
    spec: Callable[[ScenarioGang], Json]
    pod: Callable[[ScenarioGang], Json]


def _least(gang: ScenarioGang) -> Json:
    return {"minMember": gang.min_member}


def _native_spec(gang: ScenarioGang) -> Json:
    named = {"priorityClassName": gang.priority_class} if gang.priority_class else {}
    return {"schedulingPolicy": {"gang": {"minCount": gang.min_member}}, "priority": gang.priority, **named}


#: All APIs of PodGroups that a scenario's gang may have.
GROUP_APIS: Final[Mapping[GangSource, GroupApi]] = MappingProxyType(
    {
        GangSource.COSCHEDULING: GroupApi(
            COSCHEDULING,
            COSCHEDULING_POD_GROUPS,
            CoschedulingPodGroup,
            frozenset({"minMember"}),
            _least,
            lambda gang: {"metadata": {"labels": {COSCHEDULING_LABEL: gang.name}}},
        ),
        GangSource.VOLCANO: GroupApi(
            VOLCANO,
            VOLCANO_POD_GROUPS,
            VolcanoPodGroup,
            frozenset({"minMember"}),
            _least,
            lambda gang: {"metadata": {"annotations": {VOLCANO_ANNOTATIONS[0]: gang.name}}},
        ),
        GangSource.NATIVE: GroupApi(
            NATIVE,
            NATIVE_POD_GROUPS,
            NativePodGroup,
            frozenset({"schedulingPolicy", "priority", "priorityClassName"}),
            _native_spec,
            lambda gang: {"spec": {"schedulingGroup": {"podGroupName": gang.name}}},
        ),
    }
)


def pod_group_manifest(gang: ScenarioGang) -> Json:
    """Return the gang's PodGroup; raise KeyError for a pod that names none."""
    api = GROUP_APIS[gang.source]
    return {
        "apiVersion": ROWS[api.collection].api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": gang.name,
            "namespace": gang.namespace,
            **({"labels": {keys.QUEUE: gang.queue}} if gang.queue else {}),
            "annotations": dict(gang.annotations),
        },
        "spec": {**gang.group_spec, **api.spec(gang)},
    }


def roles_do(group: Stored) -> Callable[[Mapping[str, int]], bool]:
    """Return what tells whether so many members of each role are those that the parts of a PodGroup need."""
    news = ROWS[group.key.kind].seen(group.item, Known())
    parts = tree(next(each.group for each in news if isinstance(each, GroupSeen)), ())
    return lambda have: parts is None or parts.holds(lambda role: have.get(role, 0))


def membership(gang: ScenarioGang) -> Json:
    """Return what of a pod's manifest makes it a member of a gang, or what a pod without a gang says itself."""
    api = GROUP_APIS.get(gang.source)
    if api is not None:
        return api.pod(gang)
    labels = {keys.QUEUE: gang.queue} if gang.queue else {}
    return {"metadata": {"labels": labels, "annotations": dict(gang.annotations)}}


def pods_of(gang: ScenarioGang) -> dict[str, str]:
    """Return the labels that select all pods of a gang, and no others."""
    by_label = gang.source is GangSource.COSCHEDULING
    return {COSCHEDULING_LABEL if by_label else _JOB_LABEL: gang.name}


def group_ref(gang: ScenarioGang, uid: Callable[[], str]) -> GroupRef:
    """Return what Muster calls a gang; `uid` returns that of the pod where it is one without a group."""
    api = GROUP_APIS.get(gang.source)
    if api is None:
        return GroupRef(POD, gang.namespace, gang.name, uid())
    return GroupRef(api.api, gang.namespace, gang.name)


def merged(into: Mapping[str, Any], part: Mapping[str, Any]) -> Json:
    """Return a manifest with a part of another in it; what the part says counts."""
    whole = dict(into)
    for key, value in part.items():
        inner = whole.get(key)
        whole[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return whole
