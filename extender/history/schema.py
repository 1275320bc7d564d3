"""The tables of the store, and the steps that lead to them from those of earlier versions.

A step is never changed once it was released: a change is a step of its own. Each is done once, in a transaction where
the database has transactions for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

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
    insert,
    inspect,
    select,
    text,
)

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

#: GPU-seconds by hour (since 1970) and payer; the capacity of the cluster has no payer.
USAGE: Final = Table(
    "muster_usage",
    TABLES,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("queue", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    *map(_number, ("used", "reserved", "lost", "capacity")),
)


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


#: What leads from each version to the next, the first from nothing.
STEPS: Final[Sequence[Callable[[Connection], None]]] = (_first, _second)


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
