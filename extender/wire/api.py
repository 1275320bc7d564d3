"""Structs of how the API server answers: lists, watches, refusals, its version.

Same rules as in `extender.wire.kubernetes`.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from extender.wire.kubernetes import Condition, Int32, Int64, ObjectMeta


class ListMeta(
    Struct,
    gc=False,
    frozen=True,
    rename={
        "resource_version": "resourceVersion",
        "continue_": "continue",
        "remaining_item_count": "remainingItemCount",
    },
):
    """Metadata of a list: where a watch resumes and where the next page starts."""

    resource_version: str | None = None
    continue_: str | None = None
    remaining_item_count: Int64 | None = None


class ObjectList(Struct, gc=False, frozen=True):
    """One page of a list, its items still undecoded so that the caller can slice the work."""

    metadata: ListMeta | None = None
    items: list[Raw] | None = None


class WatchEvent(Struct, gc=False, frozen=True):
    """One line of a watch; `object` stays undecoded until its kind is known."""

    type: str | None = None
    object: Raw = Raw(b"null")


class MetadataOnly(Struct, gc=False, frozen=True):
    """Any object, for its metadata alone (bookmarks)."""

    metadata: ObjectMeta | None = None


class ConditionedStatus(Struct, gc=False, frozen=True):
    """A status, for its conditions alone."""

    conditions: list[Condition] | None = None


class Conditioned(Struct, gc=False, frozen=True):
    """Any object with conditions, for these alone."""

    status: ConditionedStatus | None = None


class StatusCause(Struct, gc=False, frozen=True):
    """One cause of a refusal; `reason` is such as `DisruptionBudget`."""

    reason: str | None = None
    message: str | None = None


class StatusDetails(Struct, gc=False, frozen=True):
    """What a refusal is about."""

    causes: list[StatusCause] | None = None


class Status(Struct, gc=False, frozen=True):
    """A metav1.Status: how the API server says no."""

    code: Int32 | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None


class VersionInfo(Struct, gc=False, frozen=True, rename="camel"):
    """What `GET /version` answers, a version.Info; `git_version` is such as `v1.37.0` or `v1.36.3-gke.1234`."""

    git_version: str | None = None
