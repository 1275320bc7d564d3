"""The steps that lead to the tables of the store from those of earlier versions.

A step is never changed once it was released: a change is a step of its own. Each is done once, in a transaction where
the database has transactions for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, func, insert, inspect, literal, select, text

from extender.history.schema import AMOUNTS, GANGS, SPANS, STATE, TABLES, USAGE
from extender.history.sums import SPAN_HOURS, add_sums, waits_where

#: Gangs whose waits are added up at a time.
_CHUNK: Final = 10_000


def _first(connection: Connection) -> None:
    TABLES.create_all(connection)
    connection.execute(insert(STATE).values(id=1))


def _second(connection: Connection) -> None:
    """Add the runs of a gang, and have names found by how they begin; a new store has both."""
    if "runs" not in {column["name"] for column in inspect(connection).get_columns(GANGS.name)}:
        connection.execute(text("ALTER TABLE muster_gangs ADD COLUMN runs TEXT NOT NULL DEFAULT ''"))
    connection.execute(text("DROP INDEX IF EXISTS muster_gangs_name"))
    for index in GANGS.indexes:
        index.create(connection, checkfirst=True)


def _third(connection: Connection) -> None:
    """Add up what gangs waited and all sums by days and weeks, and have runtimes found; a new store has the columns."""
    known = {column["name"] for column in inspect(connection).get_columns(USAGE.name)}
    for name in ("waiting_gangs", "waiting_gpus"):
        if name not in known:
            connection.execute(text(f"ALTER TABLE muster_usage ADD COLUMN {name} FLOAT NOT NULL DEFAULT 0"))
    SPANS.create(connection, checkfirst=True)
    for index in GANGS.indexes:
        index.create(connection, checkfirst=True)
    names = ("queue", "namespace", "user")
    for hours in SPAN_HOURS:
        hour = USAGE.c.hour - USAGE.c.hour % hours
        payer = [USAGE.c[name] for name in names]
        sums = select(literal(hours), hour, *payer, *(func.sum(USAGE.c[name]) for name in AMOUNTS))
        connection.execute(insert(SPANS).from_select(["hours", "hour", *names, *AMOUNTS], sums.group_by(hour, *payer)))
    most = connection.execute(select(func.max(GANGS.c.id))).scalar_one() or 0
    for start in range(0, most + 1, _CHUNK):
        add_sums(connection, {}, waits_where(connection, GANGS.c.id.between(start, start + _CHUNK - 1)), {})


#: What leads from each version to the next, the first from nothing.
STEPS: Final[Sequence[Callable[[Connection], None]]] = (_first, _second, _third)


def migrate(connection: Connection) -> None:
    """Bring the tables to the newest version; raise ValueError if they are of a newer one than this Muster knows."""
    version = 0
    if connection.dialect.has_table(connection, STATE.name):
        version = connection.execute(select(STATE.c.version)).scalar_one()
    if version > len(STEPS):
        raise ValueError(f"the store is of version {version}, and this Muster knows versions up to {len(STEPS)}")
    for step in STEPS[version:]:
        step(connection)
    if version < len(STEPS):
        connection.execute(STATE.update().values(version=len(STEPS)))
