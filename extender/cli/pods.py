"""Muster's pods: which one to ask, and the ways to it that a kubeconfig opens.

The API server's proxy reaches a port that the pod offers to people; `kubectl port-forward` also reaches what it offers
on its loopback alone. Both use the caller's own credentials.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NoReturn, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from extender.cli.asking import (
    ANSWER_SECONDS,
    NOT_FOUND,
    Asker,
    AskError,
    Server,
    ServerError,
    UnknownPathError,
    detail_of,
)
from extender.cli.runner import InterruptibleRunner

if TYPE_CHECKING:
    from extender.control.ports import ApiError
    from extender.kube.transport import Transport

T = TypeVar("T")
Json = Mapping[str, Any]

#: How the manifests mark Muster's pods.
LABEL = "app.kubernetes.io/name=muster"
#: The container port behind which the listener for people is, where one is offered to other machines.
VIEW = "view"
#: Where the verbs are on the pod's loopback, unless its command line says otherwise.
VERBS_PORT = 10261
#: The Lease of the manifests, in Muster's namespace.
LEASE = "muster"
#: The Service that follows the leader, where the manifests' component for it is applied.
READ_SERVICE = "muster-read"
#: How long it may take to answer before the leader is looked for by the Lease (seconds): its address may be dead.
SERVICE_SECONDS = 2.0

#: Longest that anything but a stream may take; each question has a bound of its own below this.
_LONGEST_SECONDS = 600.0
_UNAUTHORIZED, _FORBIDDEN, _BAD_GATEWAY, _UNAVAILABLE = 401, 403, 502, 503

#: How long kubectl may take until it forwards; it takes a second, an exec plugin that opens a browser some more.
START_SECONDS = 30.0
#: How long kubectl may take to end.
_END_SECONDS = 5.0
#: What kubectl prints when it forwards, with --address 127.0.0.1.
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


@dataclass(frozen=True, slots=True)
class MusterPod:
    """A pod in which Muster runs.

    `hostname` is what the holder of the Lease is known by; `lease` is that Lease, its namespace first. `view_port` is
    None where no listener is offered to other machines; the verbs at `verbs_port` are on loopback, which a port-forward
    reaches.
    """

    namespace: str
    name: str
    hostname: str
    phase: str
    ready: bool
    lease: tuple[str, str]
    verbs_port: int = VERBS_PORT
    view_port: int | None = None

    @classmethod
    def read(cls, pod: Json) -> Self:
        """Return what a Pod object says of itself; what is missing has its default."""
        meta, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
        namespace, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
        containers = spec.get("containers") or []
        words = [word for one in containers for word in (*(one.get("command") or ()), *(one.get("args") or ()))]
        where, _, lease = (_option(words, "--scheduler-lease") or f"{namespace}/{LEASE}").rpartition("/")
        port = _option(words, "--port") or ""
        views = [port.get("containerPort") for one in containers for port in one.get("ports") or () if _is_view(port)]
        conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
        leaving = meta.get("deletionTimestamp") is not None
        return cls(
            namespace,
            name,
            spec.get("hostname") or name,
            "Terminating" if leaving else str(status.get("phase", "Unknown")),
            not leaving and conditions.get("Ready") == "True",
            (where or namespace, lease),
            int(port) if port.isdecimal() else VERBS_PORT,
            views[0] if views else None,
        )

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"


def running(pods: Iterable[MusterPod], namespace: str) -> Sequence[MusterPod]:
    """Return the pods that run, the ready ones first, by name; raise AskError if there are none."""
    every = sorted(pods, key=lambda pod: (not pod.ready, pod.name))
    if not every:
        raise AskError(
            f"no pods with the label {LABEL} in namespace {namespace}: is Muster installed there? "
            "--muster-namespace names another namespace, --server asks an address"
        )
    found = [pod for pod in every if pod.phase == "Running"]
    if not found:
        phases = ", ".join(f"{pod.name} is {pod.phase}" for pod in every)
        raise AskError(f"no pod of Muster runs in namespace {namespace}: {phases}; kubectl describe pod says why")
    return found


def leading(pods: Sequence[MusterPod], lease: Json | None) -> MusterPod:
    """Return which of some running pods leads, else the first one: Muster itself says so if it does not lead.

    kube-scheduler calls itself `<hostname>_<UUID>` in its Lease, and shares its hostname with the Muster beside it.
    """
    holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
    return next((pod for pod in pods if holder.startswith(f"{pod.hostname}_")), pods[0])


def _is_view(port: Json) -> bool:
    return port.get("name") == VIEW and isinstance(port.get("containerPort"), int)


def _option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option on a command line: `--name=value`, or two words."""
    for place, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
        if word == name and place + 1 < len(words):
            return words[place + 1]
    return None


class ApiServerError(AskError):
    """The API server itself refused, or did not answer; `refusal` is its HTTP status, 0 without an answer."""

    def __init__(self, message: str, refusal: int) -> None:
        """Keep the status apart from those of Muster."""
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class ApiSession:
    """The API server, asked by code that is not asynchronous; for Muster behind it, `right` is what a refusal lacks."""

    runner: InterruptibleRunner
    transport: Transport

    def ask(self, method: str, path: str, timeout: float, right: str, body: Json | None = None) -> bytes:
        """Return the answer to a request; raise AskError for all else than success."""
        with _worded(right):
            return self.send(method, path, timeout, body)

    def send(self, method: str, path: str, timeout: float, body: Json | None = None) -> bytes:
        """Return the answer to a request; raise ApiError for a refusal, AskError without an answer in time."""
        given = dict(body or {})
        if method == "POST":
            return self._run(lambda: self.transport.post(path, given), timeout)
        if method == "PATCH":
            return self._run(lambda: self.transport.patch(path, given), timeout)
        if method == "DELETE":
            return self._run(lambda: self.transport.delete(path, given), timeout)
        return self._run(lambda: self.transport.get(*_parted(path)), timeout)

    def ask_pod(self, path: str, timeout: float, right: str, token: str, body: Json | None = None) -> bytes:
        """Return the answer of a pod behind the proxy, a POST if there is a body; raise AskError as `ask`."""
        shown = _showing(token)
        with _worded(right):
            if body is not None:
                return self._run(lambda: self.transport.post(path, dict(body), shown), timeout)
            return self._run(lambda: self.transport.get(*_parted(path), shown), timeout)

    def token(self) -> str:
        """Return what the Authorization header says to the API server, "" where a certificate does."""
        return self._run(self.transport.token, ANSWER_SECONDS)

    def chunks(self, path: str, idle_seconds: float, right: str, token: str) -> Iterator[bytes]:
        """Yield the bytes of a pod's stream as they come; raise AskError as `ask`, and when the stream breaks."""
        stream = self.transport.stream(*_parted(path), idle_timeout_seconds=idle_seconds, headers=_showing(token))
        with _worded(right):
            arriving = self._run(stream.__aenter__)
            try:
                while chunk := self._run(lambda: anext(arriving, b"")):
                    yield chunk
            finally:
                self._run(lambda: stream.__aexit__(None, None, None))

    def _run(self, question: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        try:
            return self.runner.run(question, timeout)
        except TimeoutError as error:
            said = f"no answer through the API server within {timeout or 0:g} s"
            raise AskError(f"{said}; try again, or take another way with --via port-forward") from error


def _showing(token: str) -> Mapping[str, str]:
    """Return the header that shows a pod behind the proxy a token, none for ""."""
    from extender.kube.api import TOKEN_HEADER

    return {TOKEN_HEADER: token} if token else {}


def _parted(path: str) -> tuple[str, dict[str, str]]:
    """Return a path and its query."""
    parts = urlsplit(path)
    return parts.path, dict(parse_qsl(parts.query))


@contextlib.contextmanager
def api_session(kubeconfig: Path | None, context: str | None) -> Iterator[ApiSession]:
    """Reach the API server of a kubeconfig, as kubectl would; raise ServerError where that says nothing usable."""
    from extender.cli.logs import LogFormat, LogLevel, configure_logs
    from extender.clock import SystemClock
    from extender.kube.credentials import CredentialsError, find_credentials
    from extender.kube.transport import Transport

    configure_logs(LogLevel.ERROR, LogFormat.AUTO)
    with InterruptibleRunner() as runner:
        try:
            source = find_credentials(os.environ, kubeconfig, context)
            clock = SystemClock()
            transport = runner.run(
                lambda: Transport.connect(source, clock, pool_size=4, timeout_seconds=_LONGEST_SECONDS)
            )
        except CredentialsError as error:
            raise ServerError(f"{error}; or --server with Muster's address") from error
        except TimeoutError as error:
            raise AskError("the kubeconfig's exec plugin does not end; run it by hand to see why") from error
        try:
            yield ApiSession(runner, transport)
        finally:
            runner.run(transport.close)


def find_muster(api: ApiSession, namespace: str) -> MusterPod:
    """Return the pod of Muster that leads; raise AskError where none can be found."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={LABEL}"
    listed = json.loads(api.ask("GET", path, ANSWER_SECONDS, f"list pods in namespace {namespace}"))
    pods = running(map(MusterPod.read, listed.get("items") or ()), namespace)
    if len(pods) == 1:
        return pods[0]
    where, name = pods[0].lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{where}/leases/{name}"
    try:
        return leading(pods, json.loads(api.ask("GET", path, ANSWER_SECONDS, f"get leases in namespace {where}")))
    except ApiServerError as error:
        if error.refusal != NOT_FOUND:
            raise
        return leading(pods, None)


def follow_service(api: ApiSession, namespace: str, token: str = "") -> ViewProxy | None:
    """Return the way by the Service that follows the leader, None where it is not there, or leads to no Muster."""
    muster = ViewProxy(api, namespace, f"services/{READ_SERVICE}:{VIEW}", f"Service {namespace}/{READ_SERVICE}", token)
    try:
        muster.get("/healthz", SERVICE_SECONDS)
    except AskError:  # what is the matter is told where pods are looked for: that way has all of the words
        return None
    return muster


class ViewProxy(Asker):
    """Muster's listener for people, behind the API server's proxy to its pod or to the Service in front of it.

    The proxy takes the Authorization header away. So a token goes by another one, and only to a Muster that asks for
    it: from the API server to the pod it travels as plain HTTP.
    """

    def __init__(self, api: ApiSession, namespace: str, behind: str, called: str, token: str = "") -> None:
        """Ask `pods/NAME:PORT` or `services/NAME:PORT`: with `token`, else with the kubeconfig's if one is needed."""
        self._api = api
        self._token = f"Bearer {token}" if token else ""
        self._base = f"/api/v1/namespaces/{namespace}/{behind}/proxy"
        self._right = f"{behind.partition('/')[0]}/proxy in namespace {namespace}"
        self.where = f"{called} (through the API server's proxy)"

    @classmethod
    def to_pod(cls, api: ApiSession, pod: MusterPod, port: int, token: str = "") -> Self:
        """Return the way to one pod."""
        return cls(api, pod.namespace, f"pods/http:{pod.name}:{port}", str(pod), token)

    def _ask(self, method: str, path: str, timeout: float, body: bytes | None) -> bytes:
        right = f"{'create' if method == 'POST' else 'get'} {self._right}"
        document = json.loads(body or b"{}") if method == "POST" else None
        while True:
            try:
                return self._api.ask_pod(self._base + path, timeout, right, self._token, document)
            except AskError as error:
                self._show_token(error)

    def _chunks(self, path: str, idle_seconds: float) -> Iterator[bytes]:
        while True:
            try:
                yield from self._api.chunks(self._base + path, idle_seconds, f"get {self._right}", self._token)
            except AskError as error:
                self._show_token(error)
            else:
                return

    def _show_token(self, refused: AskError) -> None:
        """Show the kubeconfig's token from now on if Muster refused for want of one; else raise what was refused."""
        if refused.status != _UNAUTHORIZED or self._token:
            raise refused
        token = self._api.token()
        if not token:
            raise AskError(
                f"{self.where} answers only callers who show a token, and this kubeconfig has none: a client "
                "certificate ends at the API server. Give one by --token-file (kubectl create token NAME makes one), "
                "or, as an administrator, use --via port-forward",
                _UNAUTHORIZED,
            ) from refused
        self._token = token


@contextlib.contextmanager
def _worded(right: str) -> Iterator[None]:
    """Raise an AskError for what the API server refuses on the way to Muster."""
    from extender.control.ports import ApiError

    try:
        yield
    except ApiError as error:
        raise _refusal(error, right) from error


def _refusal(error: ApiError, right: str) -> AskError:
    """Return what went wrong on the way through the API server: Muster's own words where it was Muster that refused."""
    status = error.status
    if detail := detail_of(error.message):
        return AskError(detail, status)
    if error.message.startswith("{"):
        kind = UnknownPathError if status == NOT_FOUND else AskError
        return kind(f"Muster answered {status} {error.reason}; is it older than this command?")
    said = f"the API server: {error}"
    if not status:
        said += "; does kubectl reach the cluster of this context (kubectl cluster-info)?"
    if status == _FORBIDDEN:
        role = "the Role muster-view has it (docs/command-line.md)"
        said = f"{error.message or error}: the right to {right} is missing; {role}"
    elif status == _UNAUTHORIZED:
        said = "the API server does not know these credentials (401); log in again"
    elif status in {_BAD_GATEWAY, _UNAVAILABLE}:
        said = f"the API server does not get through to Muster: {error}; --via port-forward takes another way"
    return ApiServerError(said, status)


@contextlib.contextmanager
def forwarded(
    pod: MusterPod, port: int, kubeconfig: Path | None, context: str | None, start_seconds: float = START_SECONDS
) -> Iterator[Server]:
    """Forward a free port to a pod's while the context lasts; raise AskError with what kubectl says against it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise AskError(
            "a port-forward needs kubectl, and none is on PATH: install it (https://kubernetes.io/docs/tasks/tools), "
            "or offer Muster's listener for people and use --via proxy (docs/command-line.md)"
        )
    command = [kubectl, *([f"--kubeconfig={kubeconfig}"] if kubeconfig else [])]
    command += [f"--context={context}"] if context else []
    command += ["port-forward", "--address=127.0.0.1", f"--namespace={pod.namespace}", f"pod/{pod.name}", f":{port}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, _signals_unwind():
        process = subprocess.Popen(  # noqa: S603 - the kubectl found on PATH, with a list of arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            local = _local_port(process, start_seconds)
            if local is None:
                raise AskError(f"kubectl port-forward to {pod} failed: {_said(process, errors, start_seconds)}")
            yield Server(f"http://127.0.0.1:{local}", name=f"{pod} (by kubectl port-forward)")
        finally:
            _end(process)


@contextlib.contextmanager
def _signals_unwind() -> Iterator[None]:
    """Have signals that would end this process at once unwind it instead, so that kubectl is ended with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(128 + number)  # as a shell reports the end by a signal


def _local_port(process: subprocess.Popen[str], start_seconds: float) -> int | None:
    """Return the port that kubectl listens on; None if it ended, or took too long and was killed."""
    late = threading.Timer(start_seconds, process.kill)
    late.start()
    try:
        for line in process.stdout or ():
            if found := _FORWARDING.match(line):
                return int(found[1])
        return None
    finally:
        late.cancel()


def _said(process: subprocess.Popen[str], errors: IO[str], start_seconds: float) -> str:
    """Return the last line that kubectl wrote on standard error, with the missing right where it is about one."""
    code = process.wait()
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    if not lines:
        return f"nothing happened for {start_seconds:g} s" if code < 0 else f"it ended with exit code {code}"
    said = lines[-1].removeprefix("error: ")
    if "forbidden" in said.lower():
        role = "the Role muster-port-forward has it (docs/command-line.md)"
        said += f"; the right to create pods/portforward is missing; {role}"
    return said


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
