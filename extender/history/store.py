"""The store: a file of SQLite, or PostgreSQL. Everything here blocks, and is called from threads of its own.

What is written as one batch is seen as one. Each batch has a number and its writer a name, which the store remembers: a
batch that was written although the connection broke before that was known is not written twice, and a writer that
another one has followed writes no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from msgspec.structs import asdict, fields
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    create_engine,
    delete,
    event,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, InternalError, OperationalError, SQLAlchemyError

from extender.explain.runtimes import MOST_KEYS, MOST_SAMPLES
from extender.history.courses import read_course
from extender.history.migrations import migrate
from extender.history.records import (
    HOUR,
    Batch,
    Course,
    GangPage,
    GangQuery,
    GangRecord,
    HourSums,
    OpenPod,
    PastRuntime,
    Payer,
    StoredState,
    StoreError,
    SupersededError,
    TimeGrid,
    folded_with,
    is_folded_in,
)
from extender.history.schema import GANGS, PODS, RAN, SPANS, STATE, USAGE, put_rows
from extender.history.sums import SPAN_HOURS, add_sums, waits_of

#: How long a call waits for a lock, a connection or an answer (seconds).
_PATIENCE: Final = 5
#: UIDs in one question, and rows that are deleted at a time.
_CHUNK: Final = 500
_MOST_DELETED: Final = 2000
#: Gangs that are looked through for a node: some 50 ms.
_MOST_SEEN: Final = 10_000
#: Gangs that are sorted to find the latest: some 30 ms.
_MOST_SORTED: Final = 100_000
#: What comes after all characters of names.
_LAST: Final = "\U0010ffff"

_COLUMNS: Final = tuple(field.name for field in fields(GangRecord))
_RECORD: Final = tuple(GANGS.c[name] for name in _COLUMNS)

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    call: Callable[Concatenate[HistoryStore, P], R],
) -> Callable[Concatenate[HistoryStore, P], R]:
    """Return a call that raises StoreError for whatever goes wrong with the database."""

    @wraps(call)
    def run(store: HistoryStore, /, *arguments: P.args, **options: P.kwargs) -> R:
        try:
            return call(store, *arguments, **options)
        except (OperationalError, InterfaceError, OSError) as error:
            raise StoreError(_said(error)) from error
        except InternalError as error:
            # A fault of the server, such as that it is a standby by now and only read: no batch is to blame for that.
            store.close()  # the next connection may reach another server
            raise StoreError(_said(error)) from error
        except (SQLAlchemyError, ValueError, ImportError) as error:
            raise StoreError(_said(error), lasting=True) from error

    return run


class HistoryStore:
    """A store at a path or an URL; nothing is opened before it is used."""

    def __init__(self, where: str) -> None:
        """Keep the history at `where`: the path of a file, or postgresql://USER@HOST/DATABASE."""
        self._where = where
        self.shared = "://" in where
        self._engine: Engine | None = None
        self._opening = Lock()  # two threads write and read

    @guarded
    def load(self, writer: str, uids: Sequence[str]) -> StoredState:
        """Take over as `writer`; return what is open, what is known of the gangs with some UIDs, and late runtimes.

        Raises StoreError, also for tables of a newer version.
        """
        with self._open().begin() as connection:
            migrate(connection)
            connection.execute(update(STATE).values(writer=writer, seq=0))
            at = connection.execute(select(STATE.c.at)).scalar_one()
            rows = list(connection.execute(select(*_RECORD).where(GANGS.c.ended.is_(None))))
            for start in range(0, len(uids), _CHUNK):
                asked = GANGS.c.uid.in_(uids[start : start + _CHUNK])
                rows += connection.execute(select(*_RECORD).where(asked, GANGS.c.ended.is_not(None)))
            pods = [OpenPod(*row) for row in connection.execute(select(PODS))]
            runtimes = _runtimes(connection)
        return StoredState(at, {row.uid: GangRecord(*row) for row in rows}, pods, runtimes)

    @guarded
    def write(self, writer: str, seq: int, batch: Batch) -> None:
        """Write a batch, unless it is written already; raise SupersededError if another writer has taken over."""
        with self._open().begin() as connection:
            mine = update(STATE).where(STATE.c.writer == writer, STATE.c.seq < seq)
            if not connection.execute(mine.values(seq=seq, at=batch.at)).rowcount:
                if connection.execute(select(STATE.c.writer)).scalar_one() != writer:
                    raise SupersededError
                return
            uids = {*(record.uid for record in batch.gangs), *batch.renamed, *batch.renamed.values()}
            waits = waits_of(connection, uids)
            for old, new in batch.renamed.items():
                known = select(GANGS.c.id).where(GANGS.c.uid == new).exists()
                connection.execute(update(GANGS).where(GANGS.c.uid == old, ~known).values(uid=new))
                connection.execute(delete(GANGS).where(GANGS.c.uid == old))
                connection.execute(update(PODS).where(PODS.c.gang == old).values(gang=new))
            put_rows(connection, GANGS, ["uid"], [asdict(record) for record in batch.gangs])
            put_rows(connection, PODS, ["uid"], [pod._asdict() for pod in batch.opened])
            for start in range(0, len(batch.closed), _CHUNK):
                connection.execute(delete(PODS).where(PODS.c.uid.in_(list(batch.closed)[start : start + _CHUNK])))
            add_sums(connection, batch.usage, waits_of(connection, uids), waits)

    @guarded
    def forget(self, before: float) -> int:
        """Delete gangs that ended `before`, and the hours before; return how many, and call again if that is many."""
        with self._open().begin() as connection:
            old = select(GANGS.c.id).where(GANGS.c.ended < before).limit(_MOST_DELETED)
            gone = connection.execute(delete(GANGS).where(GANGS.c.id.in_(old))).rowcount
            hour = int(before // HOUR)
            connection.execute(delete(USAGE).where(USAGE.c.hour < hour))
            connection.execute(delete(SPANS).where(SPANS.c.hour + SPANS.c.hours <= hour))
        return gone if gone == _MOST_DELETED else 0

    @guarded
    def gangs(self, query: GangQuery) -> GangPage:
        """Return a page of gangs, the latest first.

        Of those on one node it has those among the latest 10,000 that are asked for otherwise: the names of nodes are
        folded, and are looked through here. Where there are older ones the next page goes on with them.
        """
        moment = GANGS.c.created if query.running else GANGS.c.ended
        terms: list[ColumnElement[bool]] = [GANGS.c.ended.is_(None) if query.running else GANGS.c.ended.is_not(None)]
        names = ("namespace", "name", "queue", "user", "outcome")
        terms += [GANGS.c[name] == wanted for name in names if (wanted := getattr(query, name))]
        if query.within is not None:
            terms.append(GANGS.c.namespace.in_(list(query.within)))
        if query.since is not None:
            terms.append(moment >= query.since)
        if query.until is not None:
            terms.append(moment < query.until)
        if query.after is not None:
            terms += [moment <= query.after[0], tuple_(moment, GANGS.c.id) < tuple_(*query.after)]
        order = (moment.desc(), GANGS.c.id.desc())
        with self._open().connect() as connection:
            at = connection.execute(select(STATE.c.at)).scalar_one() or 0.0
            terms += _begins(connection, query.prefix)
            found, last = _picked(connection, select(GANGS.c.id, moment).where(*terms).order_by(*order), query)
            rows = connection.execute(select(*_RECORD).where(GANGS.c.id.in_(found)).order_by(*order))
            return GangPage([GangRecord(*row) for row in rows], at, last)

    @guarded
    def course(self, grid: TimeGrid, by: str, only: Payer, most: int, within: Collection[str] | None = None) -> Course:
        """Return what was used and waited for in a grid, by a field of the payer, of all that `only` names.

        `within` are some namespaces, None for all. Those `most` that used or waited most are told apart. Complexity:
        O(stretches x payers + gangs that wait).
        """
        with self._open().connect() as connection:
            return read_course(connection, grid, by, only, most, within)

    @guarded
    def usage(
        self, since: int, until: int, by: str, only: Payer, within: Collection[str] | None = None
    ) -> Sequence[tuple[int, str, HourSums]]:
        """Return GPU-seconds by hour, from `since` to before `until` (hours since 1970), and by a field of the payer.

        `only` are those of all that it names, `within` some namespaces. The capacity is under "", whatever is asked
        for.
        """
        sums = [func.sum(USAGE.c[name]) for name in HourSums._fields]
        column = USAGE.c[by]
        terms = [USAGE.c[name] == value for name, value in only._asdict().items() if value]
        if within is not None:
            terms.append(USAGE.c.namespace.in_(list(within)))
        capacity = (USAGE.c.capacity > 0) & (USAGE.c.queue == "") & (USAGE.c.namespace == "")
        where = [USAGE.c.hour >= since, USAGE.c.hour < until, or_(*(USAGE.c[name] != 0 for name in HourSums._fields))]
        asked = select(USAGE.c.hour, column, *sums).where(*where, *terms).group_by(USAGE.c.hour, column)
        with self._open().connect() as connection:
            rows = [(row[0], row[1], HourSums(*row[2:])) for row in connection.execute(asked)]
            if terms:
                whole = select(USAGE.c.hour, *sums).where(*where, capacity).group_by(USAGE.c.hour)
                rows += [(row[0], "", HourSums(capacity=row[-1])) for row in connection.execute(whole)]
        return rows

    def close(self) -> None:
        """Close what is open."""
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()

    def _open(self) -> Engine:
        with self._opening:
            if self._engine is None:
                self._engine = open_postgresql(self._where) if self.shared else open_sqlite(Path(self._where))
            return self._engine


def _runtimes(connection: Connection) -> list[PastRuntime]:
    """Return how long gangs ran of those payers that used or waited last, the latest of each; the latest of all last.

    One by one: a busy user leaves the others theirs, and each is found by an index.
    """
    payer = [SPANS.c[name] for name in Payer._fields]
    payers = select(*payer).where(SPANS.c.hours == max(SPAN_HOURS)).group_by(*payer)
    runtimes: list[tuple[float, PastRuntime]] = []
    for names in connection.execute(payers.order_by(func.max(SPANS.c.hour).desc()).limit(MOST_KEYS)).all():
        of = (GANGS.c[name] == value for name, value in zip(Payer._fields, names, strict=True))
        asked = select(GANGS.c.ended, GANGS.c.ended - GANGS.c.started).where(RAN, *of)
        latest = connection.execute(asked.order_by(GANGS.c.ended.desc()).limit(MOST_SAMPLES))
        runtimes += ((ended, PastRuntime(*Payer(*names), seconds)) for ended, seconds in latest)
    return [runtime for _, runtime in sorted(runtimes, key=itemgetter(0))]


def _begins(connection: Connection, prefix: str) -> list[ColumnElement[bool]]:
    """Return the terms for names that begin so, in the form for which each database looks into its index."""
    if not prefix:
        return []
    if connection.dialect.name == "postgresql":
        return [GANGS.c.name.startswith(prefix, autoescape=True)]
    terms = [GANGS.c.name >= prefix, GANGS.c.name < prefix + _LAST]
    many = connection.execute(select(GANGS.c.name).where(*terms).limit(1).offset(_MOST_SORTED)).first()
    # Of a large part of all gangs the latest are soon found among the latest of all, without sorting that part.
    return [GANGS.c.name.concat("").between(prefix, prefix + _LAST)] if many else terms


def _picked(connection: Connection, asked: Select[Any], query: GangQuery) -> tuple[list[int], tuple[float, int] | None]:
    """Return the numbers of the gangs of one page, and the last one that was looked at if there are more."""
    most, pattern = query.limit, None
    if query.node:
        asked, most, pattern = asked.add_columns(GANGS.c.nodes), _MOST_SEEN, folded_with(query.node)
    found: list[int] = []
    last: tuple[float, int] | None = None
    for seen, (number, moment, *nodes) in enumerate(connection.execute(asked.limit(most + 1))):
        if seen == most or len(found) == query.limit:
            return found, last
        last = moment, number
        if pattern is None or is_folded_in(query.node, nodes[0], pattern):
            found.append(number)
    return found, None


def open_sqlite(path: Path) -> Engine:
    """Return a file of SQLite with a write-ahead log: no reader waits for the writer, and kill -9 spoils nothing."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _PATIENCE, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - sqlite3.Connection, by way of SQLAlchemy
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def open_postgresql(url: str) -> Engine:
    """Return PostgreSQL by psycopg 3; raise ValueError for another URL. A server that is silent is given up soon."""
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise ValueError(f"cannot read the URL of the history: {error}") from error
    waits = {"connect_timeout": _PATIENCE, "tcp_user_timeout": 2000 * _PATIENCE, "keepalives_idle": 2 * _PATIENCE}
    options = f"-c statement_timeout={2000 * _PATIENCE} -c lock_timeout={1000 * _PATIENCE}"
    return create_engine(
        address.set(drivername="postgresql+psycopg"),
        connect_args={**waits, "application_name": "muster", "options": options},
        pool_size=2,
        pool_pre_ping=True,
    )


def _said(error: BaseException) -> str:
    """Return what a database says, in one line and without the statement."""
    origin = getattr(error, "orig", None) or error
    return " ".join(str(origin).split())[:300] or type(origin).__name__
