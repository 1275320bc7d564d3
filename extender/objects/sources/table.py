"""All sources of gangs. A new one is a module beside this one, and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from extender.objects.keys import GANG, MIN_MEMBER
from extender.objects.podgroup import POD
from extender.objects.sources import (
    coscheduling,
    disaggregatedset,
    grove,
    jobset,
    kai,
    kubeflow,
    kueue,
    leaderworkerset,
    native,
    ray,
    volcano,
)
from extender.objects.sources.source import Source

#: Gangs that pods form by Muster's own labels and annotations alone, without an object.
LABEL: Final = "muster.dev"

#: Jobs that Muster resumes: their pods are told by their controller, and name no group.
JOB: Final = "batch"

#: In the order in which they are asked about a pod; plain labels come last, and a pod that names no group after them.
SOURCES: Final[tuple[Source, ...]] = (
    coscheduling.SOURCE,
    native.SOURCE,
    native.COMPOSITE_SOURCE,
    grove.SOURCE,
    kai.SOURCE,
    kueue.SOURCE,
    jobset.SOURCE,
    disaggregatedset.SOURCE,
    leaderworkerset.SOURCE,
    kubeflow.SOURCE,
    volcano.SOURCE,
    ray.SOURCE,
    ray.JOB_SOURCE,
    Source(api=JOB, noun="Job"),
    Source(api=LABEL, noun="gang", label=GANG, size_annotation=MIN_MEMBER),
    Source(api=POD, noun="pod"),
)

#: `GroupRef.api` -> its source.
SOURCE_OF: Final[Mapping[str, Source]] = MappingProxyType({source.api: source for source in SOURCES})
