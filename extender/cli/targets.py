"""What a gang consists of in the API server: the object that describes it, its pods, and what made these.

Asked with the caller's own rights; no Muster needs to run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from extender.cli.asking import ANSWER_SECONDS, NOT_FOUND, AskError, ServerError, gang_path
from extender.cli.pods import ApiServerError, ApiSession, Json

_FORBIDDEN = 403
#: An owner of an owner of ... : a pod of a Job of a JobSet of a TrainJob has three.
_MOST_OWNERS = 5


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """An object as the API server has it; `path` is where, `called` how kubectl names it: `job.batch/train`."""

    path: str
    called: str
    body: Json

    @property
    def meta(self) -> Json:
        """Return its metadata."""
        found: Json = self.body.get("metadata") or {}
        return found

    @property
    def kind(self) -> str:
        """Return its kind, in small letters."""
        return self.called.partition("/")[0].partition(".")[0]

    @property
    def controller(self) -> Json | None:
        """Return what says who made it, None if no controller did."""
        return next((each for each in self.meta.get("ownerReferences") or () if each.get("controller")), None)


@dataclass(frozen=True, slots=True)
class GangObjects:
    """A gang: the object that describes it (None for one of labels alone), of the API `api`, and its pods."""

    name: str
    api: str
    about: StoredObject | None
    pods: Sequence[StoredObject]

    @property
    def speakers(self) -> Sequence[StoredObject]:
        """Return the objects whose annotations speak for the gang."""
        return self.pods if self.about is None else (self.about,)


class ForbiddenError(AskError):
    """The caller lacks a right; the message is the API server's, which names it."""


class ClusterObjects:
    """The API server as actions use it: objects by path, and changes that may be tried alone (a server dry run)."""

    def __init__(self, api: ApiSession, *, dry_run: bool = False, namespace: str = "default") -> None:
        """Change nothing with `dry_run`: the API server then says what it would do.

        Gangs that are named without a namespace are of `namespace`.
        """
        self.namespace = namespace
        self._api = api
        self._query = "?dryRun=All" if dry_run else ""

    def get(self, path: str) -> Json:
        """Return an object or a list; raise AskError."""
        return self._send("GET", path)

    def find(self, path: str) -> Json | None:
        """Return an object, None if it is not there; raise AskError for all else, ForbiddenError without the right."""
        try:
            return self._send("GET", path)
        except ApiServerError as error:
            if error.refusal == NOT_FOUND:
                return None
            if error.refusal == _FORBIDDEN:
                raise ForbiddenError(str(error)) from error
            raise

    def patch(self, path: str, body: Json) -> None:
        """Merge `body` into an object; raise AskError."""
        self._send("PATCH", path + self._query, body)

    def post(self, path: str, body: Json) -> Json:
        """Create an object, or have a review answered, and return it; raise AskError."""
        return self._send("POST", path + self._query, body)

    def delete(self, path: str) -> None:
        """Delete an object and, by and by, what it has made; raise AskError."""
        # With a body the API server does not look at the query.
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        self._send("DELETE", path, options | ({"dryRun": ["All"]} if self._query else {}))

    def owner(self, of: StoredObject) -> StoredObject | None:
        """Return the object that made another one, None if no controller did, or if it is gone; raise AskError."""
        said = of.controller
        if said is None:
            return None
        group, _, version = str(said["apiVersion"]).rpartition("/")
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        served = (self.find(base) or {}).get("resources") or ()
        names = (each["name"] for each in served if each["kind"] == said["kind"] and "/" not in each["name"])
        if (resource := next(names, None)) is None:
            return None
        path = f"{base}/namespaces/{of.meta['namespace']}/{resource}/{quote(str(said['name']))}"
        body = self.find(path)
        called = f"{said['kind'].lower()}{'.' if group else ''}{group}/{said['name']}"
        same = body is not None and (body.get("metadata") or {}).get("uid") == said.get("uid")
        return StoredObject(path, called, body) if body is not None and same else None

    def made_by(self, each: StoredObject) -> StoredObject:
        """Return the object at the top of those that made one another; the object itself if no controller did."""
        for _ in range(_MOST_OWNERS):
            above = self.owner(each)
            if above is None:
                break
            each = above
        return each

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        from extender.control.ports import ApiError

        try:
            answer: Json = json.loads(self._api.send(method, path, ANSWER_SECONDS, body) or b"{}")
        except ApiError as error:
            said = f"the API server refuses: {error.message}" if error.status else f"the API server: {error}"
            raise ApiServerError(said, error.status) from error
        return answer


def find_gang(cluster: ClusterObjects, gang: str) -> GangObjects:
    """Return what NAMESPACE/NAME is; raise AskError if there is no such gang, ServerError for what cannot be one.

    What describes gangs is looked for in the order in which it counts for pods.
    """
    *_, namespace, name = gang_path(gang, cluster.namespace).split("/")
    unread: dict[str, str] = {}  # API -> what may not be read of it
    about, api = None, ""
    for api, kind, path in _places(namespace, name):
        try:
            body = cluster.find(path)
        except ForbiddenError:  # as for a kind that is not installed, for all who have no rights on all kinds
            unread.setdefault(api, f"{path.split('/')[-2]}.{path.split('/')[2]}")
            continue
        if body is not None:
            about = StoredObject(path, f"{kind.lower()}.{path.split('/')[2]}/{name}", body)
            break
    pods = _pods(cluster, namespace, name, about)
    if about is None and not pods:
        but = f"; you may not get {', '.join(unread.values())} in namespace {namespace}" if unread else ""
        raise AskError(f"no PodGroup, Job or other object, and no pods, are a gang {namespace}/{name} you may see{but}")
    found = "" if about is None else api
    missing = next((unread[of] for of in pods.values() if of in unread and of != found), "")
    if missing:
        raise AskError(
            f"pods of {namespace}/{name} are described by {missing}, which you may not get: ask for the right"
        )
    return GangObjects(f"{namespace}/{name}", found, about, list(pods))


def split_target(target: str) -> tuple[str, str]:
    """Return the kind and name of QUEUE or node/NAME; raise ServerError for anything else."""
    kind, _, name = target.rpartition("/")
    gang_path(name)
    if kind not in {"", "queue", "node"}:
        raise ServerError(f"'{target}' is neither QUEUE nor node/NAME: Queues and nodes have no namespace")
    return kind or "queue", name


def queue_path(name: str) -> str:
    """Return where a Queue is."""
    return f"/apis/muster.dev/v1alpha1/queues/{quote(name)}"


def _places(namespace: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield API, kind and path of every object that a gang of this name could be described by."""
    from extender.objects.sources.table import JOB, SOURCES

    for source in SOURCES:
        for kind in source.kinds:
            for version in kind.versions:
                base = f"/apis/{kind.group}/{version}/namespaces/{namespace}"
                yield source.api, kind.kind, f"{base}/{kind.resource}/{quote(name)}"
        if source.api == JOB:
            yield JOB, "Job", f"/apis/batch/v1/namespaces/{namespace}/jobs/{quote(name)}"


def _pods(cluster: ClusterObjects, namespace: str, name: str, about: StoredObject | None) -> dict[StoredObject, str]:
    """Return the pods of a gang, and by which API each names it.

    Those that name it, or that its object made; without an object also one called so.
    """
    from extender.objects.pod import read_pod
    from extender.objects.podspec import decode_pod

    uid = None if about is None else about.meta.get("uid")
    found: dict[StoredObject, str] = {}
    for body in cluster.get(f"/api/v1/namespaces/{namespace}/pods").get("items") or ():
        pod = read_pod(decode_pod(json.dumps(body).encode()))
        same = pod.group.name == name if about is None else uid == pod.controller
        if same or (about is not None and not pod.group.is_pod and pod.group.name == name):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}"
            found[StoredObject(path, f"pod/{pod.name}", body)] = pod.group.api
    return found
