"""A small synchronous client of the API server for tests and benchmarks: JSON objects in, JSON objects out."""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, LifoQueue
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import yaml

from localcluster.credentials import Connection
from localcluster.errors import ApiError

JsonObject = dict[str, Any]

PatchType = Literal["merge", "strategic-merge", "json"]

#: Threads that create many objects at once; more do not help an API server on two cores.
CREATE_WORKERS = 8

FIELD_MANAGER = "localcluster"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server keeps it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of the collection, of one object in it, or of a part of that object.

        A namespaced resource without a namespace is the collection over all namespaces.
        """
        root = "api" if "/" not in self.api_version else "apis"
        parts = [root, self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


PODS = Resource("v1", "Pod", "pods", namespaced=True)
NODES = Resource("v1", "Node", "nodes", namespaced=False)
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts", namespaced=True)
EVENTS = Resource("events.k8s.io/v1", "Event", "events", namespaced=True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
JOBS = Resource("batch/v1", "Job", "jobs", namespaced=True)
POD_DISRUPTION_BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
POD_GROUPS = Resource("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", namespaced=True)
QUEUES = Resource("muster.dev/v1alpha1", "Queue", "queues", namespaced=False)
COMPOSITE_POD_GROUPS = Resource(
    "scheduling.k8s.io/v1alpha3", "CompositePodGroup", "compositepodgroups", namespaced=True
)
NATIVE_POD_GROUPS = Resource("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", namespaced=True)


class ApiClient:
    """One identity's view of the API server, over connections that are kept alive. Safe to use from several threads.

    Every method raises ApiError for an answer that is not a success.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 30.0) -> None:
        """Prepare to connect; nothing is sent yet."""
        self._http = _Connections(connection, timeout_seconds)
        self._discovered: dict[tuple[str, str], Resource] = {}

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> JsonObject:
        """Return one object."""
        return self.request("GET", resource.path(namespace, name))

    def list_items(self, resource: Resource, namespace: str | None = None, **selectors: str) -> list[JsonObject]:
        """Return the objects of one namespace, or of all; `selectors` are labelSelector and fieldSelector."""
        items: list[JsonObject] = self.request("GET", resource.path(namespace), query=selectors)["items"]
        return items

    def create(self, item: JsonObject) -> JsonObject:
        """Create an object and return it as stored."""
        resource = self.resource_of(item)
        return self.request("POST", resource.path(item["metadata"].get("namespace")), body=item)

    def create_all(self, items: Iterable[JsonObject]) -> list[JsonObject]:
        """Create objects, CREATE_WORKERS at a time, and return them as stored, in the order given."""
        with ThreadPoolExecutor(CREATE_WORKERS) as pool:
            return list(pool.map(self.create, items))

    def apply(self, item: JsonObject) -> JsonObject:
        """Create or update an object by server-side apply, refusing fields that its schema does not know."""
        metadata = item["metadata"]
        return self.request(
            "PATCH",
            self.resource_of(item).path(metadata.get("namespace"), metadata["name"]),
            body=yaml.safe_dump(item),
            content_type="application/apply-patch+yaml",
            query={"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"},
        )

    def patch(  # noqa: PLR0913 - the parts of a patch request
        self,
        resource: Resource,
        name: str,
        body: JsonObject | list[JsonObject],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = "merge",
    ) -> JsonObject:
        """Patch an object or its subresource and return the result."""
        return self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=body,
            content_type=f"application/{patch_type}-patch+json",
        )

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> None:
        """Delete an object; with `grace_seconds=0` it is gone when this returns, if it has no finalizers."""
        self.request("DELETE", resource.path(namespace, name), body=_delete_options(grace_seconds))

    def delete_all(self, resource: Resource, namespace: str | None = None) -> None:
        """Delete every object of a namespace (or of a resource without namespaces), without grace, in parts."""
        query = {"limit": "500"}
        while True:
            answer = self.request("DELETE", resource.path(namespace), body=_delete_options(0), query=query)
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return
            query |= {"continue": token}

    def resource_of(self, item: JsonObject) -> Resource:
        """Return the resource that keeps objects like `item`, asking the API server once per kind."""
        key = (item["apiVersion"], item["kind"])
        if key not in self._discovered:
            self._discover(item["apiVersion"])
        if key not in self._discovered:
            raise ApiError(404, "NotFound", f"the API server has no kind {item['kind']} in {item['apiVersion']}")
        return self._discovered[key]

    def request(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | list[JsonObject] | str | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Send one request and return the answer's JSON."""
        headers = {"Content-Type": content_type}
        how = {"content": body} if isinstance(body, str) else {"json": body}
        with self._http.lend() as http:
            request = http.build_request(method, path, params=query, headers=headers, **how)
            try:
                answer = http.send(request)
            except httpx.RemoteProtocolError:  # the server closed a connection that was kept, just when it was used
                answer = http.send(request)
        if answer.is_success:
            result: JsonObject = answer.json()
            return result
        raise _api_error(answer)

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Open a watch: an answer whose lines arrive as things happen, without a read timeout."""
        with self._http.lend() as http:
            timeout = httpx.Timeout(http.timeout.connect, read=None)
            with http.stream("GET", path, params=query, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _api_error(answer)
                yield answer

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _discover(self, api_version: str) -> None:
        root = "api" if "/" not in api_version else "apis"
        for entry in self.request("GET", f"/{root}/{api_version}")["resources"]:
            if "/" not in entry["name"]:
                found = Resource(api_version, entry["kind"], entry["name"], namespaced=entry["namespaced"])
                self._discovered[api_version, entry["kind"]] = found


class _Connections:
    """Connections to the API server, each in the hands of one thread at a time.

    A pool that threads share may close a connection that it has just given to another of them
    (https://github.com/encode/httpcore/issues/1110): that one then reads what is not meant for it, or waits in vain.
    """

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._trusted = ssl.create_default_context(cafile=connection.certificate_authority)
        self._all: list[httpx.Client] = []
        self._idle: LifoQueue[httpx.Client] = LifoQueue()

    @contextmanager
    def lend(self) -> Iterator[httpx.Client]:
        """Lend one that is idle, a new one if there is none."""
        try:
            http = self._idle.get_nowait()
        except Empty:
            http = self._connect()
        try:
            yield http
        finally:
            self._idle.put(http)

    def close(self) -> None:
        """Close all of them, also those that are in use."""
        for http in self._all:
            http.close()

    def _connect(self) -> httpx.Client:
        http = httpx.Client(
            base_url=self._connection.url,
            headers={"Authorization": f"Bearer {self._connection.token}"},
            verify=self._trusted,
            timeout=self._timeout_seconds,
            limits=httpx.Limits(max_connections=1),
            trust_env=False,
        )
        self._all.append(http)
        return http


def _delete_options(grace_seconds: int | None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _api_error(answer: httpx.Response) -> ApiError:
    """Return the error that a Status object describes; a proxy or a dying server may send something else."""
    try:
        status = answer.json()
    except ValueError:
        return ApiError(answer.status_code, answer.reason_phrase, answer.text[:500])
    return ApiError(answer.status_code, status.get("reason", answer.reason_phrase), status.get("message", ""))
