"""What was decided lately, as rows of a list."""

from __future__ import annotations

from extender.board.document import Json
from extender.control.decisionlog import Entry
from extender.domain.timestamp import write_timestamp

#: Decimals of the seconds that a gang waited: milliseconds.
_SECONDS_DECIMALS = 3


def event_row(entry: Entry) -> Json:
    """Return one entry of the decision log as JSON."""
    return {
        "seq": entry.seq,
        "time": write_timestamp(entry.at),
        "kind": entry.kind.value,
        "gang": entry.gang,
        "about": entry.about,
        "decision": entry.decision,
        "members": entry.members,
        "reason": entry.reason,
        "message": entry.message,
        "warning": entry.warning,
        "waitedSeconds": None if entry.waited is None else round(entry.waited, _SECONDS_DECIMALS),
    }
