"""Which of Muster's pods to ask, by what the API server knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from extender.cli.asking import AskError

#: How the manifests mark Muster's pods.
LABEL = "app.kubernetes.io/name=muster"
#: The container port behind which the listener for people is, where one is offered to other machines.
VIEW = "view"
#: Where the verbs are on the pod's loopback, unless its command line says otherwise.
VERBS_PORT = 10261
#: The Lease of the manifests, in Muster's namespace.
LEASE = "muster"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease says who leads."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Render for messages and command lines."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class MusterPod:
    """A pod in which Muster runs.

    `hostname` is what the holder of the Lease is known by. `view_port` is None where no listener is offered to other
    machines; the verbs at `verbs_port` are on loopback, which a port-forward reaches.
    """

    namespace: str
    name: str
    hostname: str
    phase: str
    ready: bool
    lease: LeaseName
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
            LeaseName(where or namespace, lease),
            int(port) if port.isdecimal() else VERBS_PORT,
            views[0] if views else None,
        )

    def __str__(self) -> str:
        """Render for messages."""
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
