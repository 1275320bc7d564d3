"""Keep a live copy of one resource from a watch, with everything that happened to it in order."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import httpx

from localcluster.client import ApiClient, JsonObject, Resource
from localcluster.errors import ApiError, LocalClusterError, NotInTimeError
from localcluster.waiting import PATIENCE, say_slow

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

#: Status of a watch that asks for a version the API server has already forgotten.
GONE = 410

#: Statuses of an API server that is starting or busy.
PASSING = frozenset({429, 500, 503})

#: Pause before a broken watch is opened again, in seconds.
RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event: what happened to which object, and when it was read (`time.monotonic` seconds)."""

    at: float
    type: EventType
    object: JsonObject


class Signal:
    """Wakes those who wait for a condition over any number of live views, and guards those views' contents."""

    def __init__(self) -> None:
        """Start without waiters."""
        self._condition = threading.Condition(threading.RLock())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold all views still."""
        with self._condition:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold all views still, then have every waiting condition looked at again."""
        with self._condition:
            yield
            self._condition.notify_all()

    def wait_until(
        self, condition: Callable[[], bool], *, timeout_seconds: float, description: Callable[[], str]
    ) -> float:
        """Return the seconds until `condition()` was true; looked at after every change, without polling.

        As long and as patient as `waiting.wait_until`. Raises NotInTimeError with `description()`, asked at the
        deadline so that it can say what was true instead.
        """
        started = time.monotonic()
        with self._condition:
            if self._condition.wait_for(condition, timeout=timeout_seconds):
                return time.monotonic() - started
            say_slow(description(), timeout_seconds)
            if self._condition.wait_for(condition, timeout=(PATIENCE - 1) * timeout_seconds):
                return time.monotonic() - started
            raise NotInTimeError(f"not within {PATIENCE * timeout_seconds:g} s: {description()}")

    def comes_true(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return whether `condition()` is true now or after anything that happens for exactly `seconds`."""
        with self._condition:
            return self._condition.wait_for(condition, timeout=seconds)


class LiveView:
    """The objects of one resource over all namespaces, as the API server last said, and their history.

    A background thread lists, then watches.
    """

    def __init__(self, client: ApiClient, resource: Resource, signal: Signal) -> None:
        """Prepare; nothing is read before `start`."""
        self.resource = resource
        self._objects: dict[tuple[str, str], JsonObject] = {}
        self._history: list[Change] = []
        self._client = client
        self._signal = signal
        self._version = ""
        self._stopping = threading.Event()
        self._answer: httpx.Response | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{resource.plural}", daemon=True)

    def get(self, name: str, namespace: str) -> JsonObject | None:
        """Return one object, or None if there is none."""
        self.check()
        with self._signal.reading():
            return self._objects.get((namespace, name))

    def all(self) -> list[JsonObject]:
        """Return all objects."""
        self.check()
        with self._signal.reading():
            return list(self._objects.values())

    def history(self) -> list[Change]:
        """Return everything that happened since the start or since `forget_history`, oldest first."""
        self.check()
        with self._signal.reading():
            return list(self._history)

    def forget_history(self) -> None:
        """Start the history anew."""
        with self._signal.reading():
            self._history.clear()

    def check(self) -> None:
        """Raise LocalClusterError if the watching thread has failed."""
        if self._failure is not None:
            raise LocalClusterError(f"the watch of {self.resource.plural} failed") from self._failure

    def start(self) -> None:
        """Read the present objects, then follow changes in the background."""
        self._list()
        self._thread.start()

    def stop(self) -> None:
        """Break the watch off and wait for its thread to end."""
        self._stopping.set()
        self._break_connection()
        self._thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _run(self) -> None:
        """Follow again and again until told to stop, or until the API server says what will not go away by itself."""
        while not self._stopping.is_set():
            try:
                self._follow()
            except httpx.TransportError:
                self._stopping.wait(RETRY_SECONDS)
            except ApiError as error:
                if error.status == GONE:
                    self._version = ""
                elif error.status in PASSING:
                    self._stopping.wait(RETRY_SECONDS)
                else:
                    self._fail(error)
                    return
            except (ValueError, KeyError) as error:
                self._fail(error)
                return

    def _follow(self) -> None:
        """Read everything if nothing is known, then watch until the stream ends."""
        if not self._version:
            self._list()
        self._watch()

    def _list(self) -> None:
        answer = self._client.request("GET", self.resource.path())
        now = time.monotonic()
        present = {_key(item): _typed(item, self.resource) for item in answer["items"]}
        self._version = answer["metadata"]["resourceVersion"]
        with self._signal.changing():
            for key, old in self._objects.items():
                if key not in present:
                    self._history.append(Change(now, "DELETED", old))
            for key, new in present.items():
                known = self._objects.get(key)
                if known is None:
                    self._history.append(Change(now, "ADDED", new))
                elif known["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]:
                    self._history.append(Change(now, "MODIFIED", new))
            self._objects = present

    def _watch(self) -> None:
        query = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        with self._client.stream(self.resource.path(), query) as answer:
            self._answer = answer
            if self._stopping.is_set():
                return
            for line in answer.iter_lines():
                self._take(json.loads(line))

    def _take(self, event: JsonObject) -> None:
        item: JsonObject = event["object"]
        if event["type"] == "ERROR":
            raise ApiError(item.get("code", 500), item.get("reason", "Unknown"), item.get("message", ""))
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        with self._signal.changing():
            self._history.append(Change(time.monotonic(), event["type"], item))
            if event["type"] == "DELETED":
                self._objects.pop(_key(item), None)
            else:
                self._objects[_key(item)] = item

    def _fail(self, error: Exception) -> None:
        with self._signal.changing():
            self._failure = error

    def _break_connection(self) -> None:
        """Shut the watch's socket down from outside: the reading thread sees the end of the stream and leaves."""
        if self._answer is None:
            return
        connection = self._answer.extensions["network_stream"].get_extra_info("socket")
        try:
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        except OSError:
            return  # it was closed already


def _key(item: JsonObject) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _typed(item: JsonObject, resource: Resource) -> JsonObject:
    """Return an item of a list with the kind that lists leave out and watch events have."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
