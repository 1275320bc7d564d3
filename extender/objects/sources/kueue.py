"""Kueue's groups of plain pods, which no object describes.

Source: kubernetes-sigs/kueue pkg/controller/jobs/pod/constants and pkg/controller/jobs/statefulset.
"""

from __future__ import annotations

from typing import Final

from extender.objects.podspec import PodSpec
from extender.objects.sources.source import Keyed, Source

KUEUE: Final = "kueue.x-k8s.io"
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
#: Kueue's integration of StatefulSets makes a group of their pods and sets both of these on it: the pods come one after
#: the other and need not start together.
_SERVING: Final = ("kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/pod-group-fast-admission")


def _gang(_spec: PodSpec, labels: Keyed, annotations: Keyed) -> str:
    name = labels.get(KUEUE_GROUP, "")
    return "" if not name or all(annotations.get(key) == "true" for key in _SERVING) else name


SOURCE = Source(
    api=KUEUE,
    noun="Kueue pod group",
    gang=_gang,
    gang_keys=(KUEUE_GROUP,),
    index_keys=("kueue.x-k8s.io/pod-group-pod-index",),
    size_annotation=KUEUE_SIZE,
)
