"""The board live: one picture, then what changes, as server-sent events.

However many pages are open, a change is collected and written once, and the same bytes go to all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from fastapi import HTTPException
from msgspec import UNSET
from msgspec.structs import replace

from extender.control.controller import Controller
from extender.objects.levels import CLUSTER_LEVEL, NODE_LEVEL
from extender.service.board.board import Board, BoardChange, BoardPicture
from extender.service.board.documents import (
    BoardDocument,
    BoardNodes,
    CapacityDocument,
    ChangeDocument,
    FittingPods,
    GangChanges,
    GangRow,
    GpuCounts,
    Island,
    LargestIsland,
    LevelCapacity,
    NodeChange,
    NodeChanges,
    NodeItem,
    NodesDocument,
    ResourceRoom,
)
from extender.service.board.rows import NodeRow, Resources
from extender.service.routes import NOT_READ_YET, UNAVAILABLE, ApiRoute, StreamedAnswer, require_ready

#: It is said how many pods with so many GPUs each there is room for.
_POD_SIZES = (1, 2, 4, 8)


def gang_rows(picture: BoardPicture) -> Iterator[GangRow]:
    """Yield the rows of all gangs, each with its position among those that wait (1 is evaluated first).

    Those that wait come first, in that order, then the others by age.
    """
    gangs = picture.gangs
    waiting = [ref for ref in picture.order if ref in gangs]
    rest = sorted(gangs.keys() - set(waiting), key=lambda ref: (gangs[ref].since or "~", ref))
    for position, ref in enumerate(waiting, start=1):
        yield replace(gangs[ref], position=position)
    for ref in rest:
        yield replace(gangs[ref], position=None)


def nodes_document(picture: BoardPicture, resources: Callable[[str], Resources]) -> NodesDocument:
    """Return the nodes, each with what it has of some resources and has left."""
    return NodesDocument(picture.levels, tuple(node_item(node, resources(node.name)) for node in picture.nodes))


def node_item(node: NodeRow, resources: Resources) -> NodeItem:
    """Return one node."""
    gpus = len(node.cells)
    return NodeItem(
        name=node.name,
        schedulable=node.schedulable,
        domains=node.domains,
        product=node.product or None,
        gpus=GpuCounts(gpus, gpus - node.free - node.reserved, node.reserved, node.free),
        holders=node.cells,
        reserved=node.promised,
        resources={name: ResourceRoom(total, free) for name, (total, free) in resources.items()},
    )


def board_document(picture: BoardPicture) -> BoardDocument:
    """Return the whole board, nodes in columns: names once, and numbers of names everywhere else.

    A cell is 0 for a free GPU, k for one that holder k (from 1 on) has, -k for one that is promised to it.
    """
    nodes, domains = picture.nodes, [dict[str, int]() for _ in picture.levels]
    holders, products = dict[str, int](), dict[str, int]()
    paths = [
        tuple(_number(known, node.domains[level]) if level < len(node.domains) else -1 for node in nodes)
        for level, known in enumerate(domains)
    ]
    product_numbers = tuple(_number(products, node.product) for node in nodes)
    cells = [tuple(_cell(holders, *cell) for cell in zip(node.cells, node.promised, strict=True)) for node in nodes]
    return BoardDocument(
        seq=picture.seq,
        status=picture.status,
        levels=picture.levels,
        gangs=tuple(gang_rows(picture)),
        queues=picture.queues,
        events=picture.events,
        domains=tuple(map(tuple, domains)),
        products=tuple(products),
        nodes=BoardNodes(
            names=tuple(node.name for node in nodes),
            domains=tuple(paths),
            products=product_numbers,
            gpus=tuple(len(node.cells) for node in nodes),
            schedulable=tuple(int(node.schedulable) for node in nodes),
            cells=tuple(cells),
        ),
        holders=tuple(holders),
    )


def change_document(change: BoardChange) -> ChangeDocument:
    """Return what has changed, with names in place of numbers; parts that are as they were are left out."""
    return ChangeDocument(
        seq=change.seq,
        status=change.status,
        gangs=GangChanges(change.put, change.gone, UNSET if change.order is None else change.order),
        events=change.events,
        nodes=NodeChanges(tuple(map(_changed, change.nodes)), change.nodes_gone),
        queues=UNSET if change.queues is None else change.queues,
    )


def capacity_document(levels: Sequence[str], nodes: Iterable[NodeRow]) -> CapacityDocument:
    """Return the free islands of each level and product, and how many pods of usual sizes fit, by GPUs alone.

    Nodes that take no pods have no room. Complexity: O(nodes x levels).
    """
    rows = [node for node in nodes if node.cells]
    found: list[LevelCapacity] = []
    for product in sorted({node.product for node in rows}):
        own = [node for node in rows if node.product == product]
        found.append(_level(NODE_LEVEL, product, {node.name: _room(node) for node in own}))
        for index in reversed(range(len(levels))):
            domains: Counter[str] = Counter()
            for node in own:
                if len(node.domains) > index and node.domains[index]:
                    domains[node.domains[index]] += _room(node)
            found += [_level(levels[index], product, domains)] if domains else []
        found.append(_level(CLUSTER_LEVEL, product, {"": sum(map(_room, own))}))
    sizes = (FittingPods(size, sum(_room(node) // size for node in rows)) for size in _POD_SIZES)
    return CapacityDocument(tuple(found), tuple(sizes))


def _level(level: str, product: str, rooms: Mapping[str, int]) -> LevelCapacity:
    sizes = Counter(rooms.values())
    largest = max(rooms, key=lambda domain: rooms[domain])
    return LevelCapacity(
        level=level,
        product=product or None,
        domains=len(rooms),
        islands=tuple(Island(size, sizes[size]) for size in sorted(sizes, reverse=True)),
        largest=LargestIsland(largest, rooms[largest]),
    )


def _room(node: NodeRow) -> int:
    return node.free if node.schedulable else 0


def _changed(node: NodeRow) -> NodeChange:
    return NodeChange(
        name=node.name,
        domains=node.domains,
        product=node.product,
        gpus=len(node.cells),
        schedulable=int(node.schedulable),
        cells=node.cells,
        reserved=tuple(map(int, node.promised)),
    )


def _number(known: dict[str, int], name: str) -> int:
    return known.setdefault(name, len(known)) if name else -1


def _cell(holders: dict[str, int], holder: str, promised: bool) -> int:  # noqa: FBT001 - a cell of two columns
    number = holders.setdefault(holder, len(holders) + 1) if holder else 0
    return -number if promised else number


#: Seconds between two looks at the board: a change is seen well within a second.
_PAUSE_SECONDS = 0.3
#: Seconds of silence after which a comment is sent, so that both sides notice a connection that is gone.
_SILENCE_SECONDS = 10.0
#: Messages that may wait for one reader. One that is further behind is disconnected, and begins again with a picture.
_MOST_WAITING = 32
#: Milliseconds after which a browser comes back.
_RETRY_MILLISECONDS = 1000
#: Pages that may be open at once; each is a connection.
_MOST_READERS = 500


class Stream:
    """Look at the board while there are readers, and hand each change to all readers.

    A board tells each change once: all applications of one controller share one stream.

    Attributes:
        board: what is shown.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._picture: tuple[int, asyncio.Task[bytes]] | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether as many read as may."""
        return len(self._readers) >= _MOST_READERS

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the picture, then changes, until the reader goes or falls behind."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        async with self._looking:  # no change may fall between the picture and the first one that is handed over
            seq, writing = await self._current_picture()
            self._readers.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._publish(), name="stream")
        try:
            body = await asyncio.shield(writing)
            yield b"retry: %d\n%b" % (_RETRY_MILLISECONDS, _message("board", seq, body))
            while True:
                try:
                    async with asyncio.timeout(_SILENCE_SECONDS):
                        message = await queue.get()
                except TimeoutError:
                    message = b": nothing new\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._readers.discard(queue)

    def hang_up(self) -> None:
        """End what every reader gets, for good: the service stops."""
        for queue in list(self._readers):
            self._send_away(queue)

    async def _current_picture(self) -> tuple[int, asyncio.Task[bytes]]:
        """Return a picture that the next change goes on from: its number, and its bytes once they are written.

        All pages that are opened between two changes get the same one: after a restart they come all at once.
        """
        if self._readers and self._picture is not None and self._picture[0] == self.board.seq:
            return self._picture
        picture = await self.board.look()
        if not self._readers:
            self.board.forget_changes()  # every reader has them
        writing = asyncio.create_task(asyncio.to_thread(lambda: msgspec.json.encode(board_document(picture))))
        self._picture = picture.seq, writing
        return self._picture

    async def _publish(self) -> None:
        """Hand over changes for as long as there are readers."""
        while self._readers:
            await asyncio.sleep(_PAUSE_SECONDS)
            async with self._looking:
                for _ in self.board.refresh():
                    await asyncio.sleep(0)
                change = self.board.take_change()
                if change is None:
                    continue
                body = await asyncio.to_thread(_encoded, change)
                message = _message("change", change.seq, body)
                for queue in list(self._readers):
                    self._hand_over(queue, message)

    def _hand_over(self, queue: asyncio.Queue[bytes | None], message: bytes) -> None:
        try:
            queue.put_nowait(message)
        except asyncio.QueueFull:
            self._send_away(queue)

    def _send_away(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._readers.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


def stream_routes(controller: Controller, stream: Stream) -> list[ApiRoute]:
    """Return the route of the live board."""

    async def follow() -> StreamedAnswer:
        require_ready(controller)
        if stream.is_full:
            raise HTTPException(UNAVAILABLE, f"{_MOST_READERS} pages are open already, and no more may be")
        return StreamedAnswer(stream.messages(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return [
        ApiRoute(
            "/api/v1/stream",
            follow,
            "Follow the board: the picture first (event `board`), then what changes (event `change`).",
            answers={"text/event-stream": {"schema": {"type": "string"}}},
            fails={UNAVAILABLE: f"{NOT_READ_YET} Or as many read already as may."},
        )
    ]


def hang_up(app: object) -> None:
    """End the streams of an application, if it has any: by themselves they never end."""
    stream = getattr(getattr(app, "state", None), "stream", None)
    if isinstance(stream, Stream):
        stream.hang_up()


def _message(event: str, seq: int, body: bytes) -> bytes:
    """Return one server-sent event; JSON as it is written here has no line breaks."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (event.encode(), seq, body)


def _encoded(change: BoardChange) -> bytes:
    return msgspec.json.encode(change_document(change))
