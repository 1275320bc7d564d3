"""The tables of the store, and how rows get into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

TABLES: Final = MetaData()

_ID: Final = BigInteger().with_variant(Integer, "sqlite")  # what SQLite numbers by itself is called INTEGER


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _number(name: str) -> Column[float]:
    return Column(name, Float(53), nullable=False, server_default="0")


#: One row: which version the tables are of, who writes, its last batch, and as of when all is (epoch seconds).
STATE: Final = Table(
    "muster_state",
    TABLES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _whole("version"),
    _text("writer"),
    _whole("seq"),
    Column("at", Float(53)),
)

#: Gangs whose runtimes are learned from. Not with parameters: an index on some rows is found by this text.
RAN: Final = text("outcome = 'Succeeded' AND evictions = 0 AND started IS NOT NULL")

#: Gangs, by the fields of `GangRecord`.
GANGS: Final = Table(
    "muster_gangs",
    TABLES,
    Column("id", _ID, primary_key=True),
    Column("uid", Text, nullable=False, unique=True),
    *map(_text, ("namespace", "name", "api", "owner", "queue", "flavor", "user")),
    *map(_whole, ("priority", "members", "gpus")),
    _text("resources"),
    _number("created"),
    Column("started", Float(53)),
    Column("ended", Float(53)),
    _text("outcome"),
    _number("waited"),
    *map(_text, ("reason", "message")),
    _whole("evictions"),
    *map(_text, ("evicted", "evicted_by", "nodes")),
    _whole("node_count"),
    *map(_number, ("used", "reserved", "lost")),
    *map(_whole, ("using", "reserving")),
    _number("as_of"),
    _text("runs"),
    # What is asked for: the latest, of a namespace, a queue, a user or an outcome; and by how the name begins.
    Index("muster_gangs_ended", "ended"),
    Index("muster_gangs_namespace", "namespace", "ended"),
    Index("muster_gangs_queue", "queue", "ended"),
    Index("muster_gangs_user", "user", "ended"),
    Index("muster_gangs_outcome", "outcome", "ended"),
    Index("muster_gangs_ran", "queue", "namespace", "user", "ended", sqlite_where=RAN, postgresql_where=RAN),
    Index("muster_gangs_named", "name", "ended", postgresql_ops={"name": "text_pattern_ops"}),
)

#: Pods that hold GPUs now.
PODS: Final = Table(
    "muster_pods",
    TABLES,
    Column("uid", Text, primary_key=True),
    _text("gang"),
    _whole("gpus"),
    _number("began"),
    *map(_text, ("evicting", "evicting_for")),
)


def _payer() -> list[Column[str]]:
    return [Column(name, Text, primary_key=True) for name in ("queue", "namespace", "user")]


#: What each row of sums has: GPU-seconds, and the seconds that gangs waited, one by one and times their GPUs.
AMOUNTS: Final = ("used", "reserved", "lost", "capacity", "waiting_gangs", "waiting_gpus")

#: Sums by hour (since 1970) and payer; the capacity of the cluster has no payer.
USAGE: Final = Table(
    "muster_usage",
    TABLES,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    *_payer(),
    *map(_number, AMOUNTS),
)

#: The same sums by days and weeks: `hours` is how long each is, `hour` its first.
SPANS: Final = Table(
    "muster_spans",
    TABLES,
    Column("hours", Integer, primary_key=True, autoincrement=False),
    Column("hour", Integer, primary_key=True, autoincrement=False),
    *_payer(),
    *map(_number, AMOUNTS),
    sqlite_with_rowid=False,  # rows lie in the order in which they are read: half the time
)


def put_rows(
    connection: Connection,
    table: Table,
    key: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    add: Sequence[str] = (),
) -> None:
    """Insert rows, or put them in the place of those with the same key; columns of `add` are added to."""
    if not rows:
        return
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    changed = {
        name: table.c[name] + insert.excluded[name] if name in add else insert.excluded[name]
        for name in rows[0]
        if name not in key
    }
    connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=changed), list(rows))
