"""The Lease by which one of several kube-schedulers is the active one."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from msgspec import Struct

from extender.objects.meta import Decoder, Int32, ObjectMeta


class LeaseSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `coordination.k8s.io/v1` Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    renew_time: str | None = None


class LeaseObject(Struct, gc=False, frozen=True):
    """A `coordination.k8s.io/v1` Lease."""

    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None


decode_lease = Decoder(LeaseObject)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a Lease and until when that was promised.

    `holder` is the holder's identity, "" for none. `duration` is how long after a renewal others keep away (seconds).
    `renewed` is the last renewal by the holder's wall clock, None where the Lease does not say.
    """

    holder: str
    duration: float
    renewed: dt.datetime | None


def read_lease(lease: LeaseObject) -> Lease:
    """Read a Lease; what cannot be read counts as not renewed."""
    spec = lease.spec or LeaseSpec()
    return Lease(spec.holder_identity or "", float(spec.lease_duration_seconds or 0), _read_time(spec.renew_time))


def _read_time(text: str | None) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
