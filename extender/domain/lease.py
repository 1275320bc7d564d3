"""The Lease by which one of several kube-schedulers is the active one."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from extender.wire import kubernetes as wire


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a Lease and until when that was promised.

    `holder` is the holder's identity, "" for nobody. `duration` is how long after a renewal others keep away (seconds).
    `renewed` is the last renewal by the holder's wall clock, None where the Lease does not say.
    """

    holder: str
    duration: float
    renewed: dt.datetime | None


def read_lease(lease: wire.Lease) -> Lease:
    """Turn a wire Lease into a value; what cannot be read counts as not renewed."""
    spec = lease.spec or wire.LeaseSpec()
    return Lease(spec.holder_identity or "", float(spec.lease_duration_seconds or 0), _read_time(spec.renew_time))


def _read_time(text: str | None) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
