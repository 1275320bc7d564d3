"""Record everything that happens to some resources, as one history in the API server's order."""

from collections.abc import Callable, Sequence
from itertools import chain
from types import TracebackType
from typing import Self

from localcluster.client import EVENTS, NODES, POD_GROUPS, PODS, ApiClient, JsonObject, Resource
from localcluster.watching import Change, LiveView, Signal

#: What a judge of scheduling looks at.
SCHEDULING = (PODS, NODES, POD_GROUPS, EVENTS)


class Recorder:
    """Watches several resources over connections of its own, so that nothing that ails others hides a change.

    What exists at the start comes first, as added. Should a watch have to begin anew, changes in between are put
    together from what was there before and after.
    """

    def __init__(self, api: ApiClient, resources: Sequence[Resource] = SCHEDULING) -> None:
        """Prepare; nothing is read before `start`."""
        self._api = api
        self._signal = Signal()
        self._by_resource = {resource: LiveView(api, resource, self._signal) for resource in resources}
        self._views = list(self._by_resource.values())

    def start(self) -> None:
        """Read what exists, then follow."""
        for view in self._views:
            view.start()

    def stop(self) -> None:
        """Stop following; what was recorded stays."""
        for view in self._views:
            view.stop()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def present(self, resource: Resource) -> list[JsonObject]:
        """Return the objects of one resource as the API server last said."""
        return self._by_resource[resource].all()

    def wait_until(self, condition: Callable[[], bool], description: str, timeout_seconds: float) -> float:
        """Return the seconds until `condition()` is true; looked at again after everything that happens.

        Raises NotInTimeError.
        """
        return self._signal.wait_until(condition, timeout_seconds=timeout_seconds, description=lambda: description)

    def comes_true(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return whether `condition()` is true now or after anything that happens for exactly `seconds`."""
        return self._signal.comes_true(condition, seconds)

    def catch_up(self, timeout_seconds: float = 10.0) -> None:
        """Wait until everything has been recorded that the API server has done up to now.

        Raises NotInTimeError, which names the resource that is behind.
        """
        for view in self._views:
            self._catch_up(view, timeout_seconds)

    def changes(self) -> list[Change]:
        """Return everything that happened, in the API server's order."""
        recorded = chain.from_iterable(view.history() for view in self._views)
        return sorted(recorded, key=lambda change: version_of(change.object))

    def _catch_up(self, view: LiveView, timeout_seconds: float) -> None:
        versions = {_uid(item): version_of(item) for item in self._api.list_items(view.resource)}
        self._signal.wait_until(
            lambda: _reached(view, versions),
            timeout_seconds=timeout_seconds,
            description=lambda: f"every change of {view.resource.plural} recorded",
        )


def version_of(item: JsonObject) -> int:
    """Return an object's resource version, by which the API server orders all changes of all resources.

    Versions may be compared since Kubernetes 1.35 (KEP-5504).
    """
    return int(item["metadata"]["resourceVersion"])


def _uid(item: JsonObject) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def _reached(view: LiveView, versions: dict[str, int]) -> bool:
    """Tell whether a view has heard of these objects at these versions or later, and knows none that is gone."""
    heard = {_uid(change.object): version_of(change.object) for change in view.history()}
    newest = max(versions.values(), default=0)
    gone = (item for item in view.all() if _uid(item) not in versions and version_of(item) <= newest)
    return all(heard.get(uid, 0) >= version for uid, version in versions.items()) and not any(gone)
