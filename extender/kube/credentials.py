"""Where the credentials for the API server come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

#: Where the kubelet mounts a pod's ServiceAccount. Source: k8s.io/client-go/rest.InClusterConfig.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
SERVICE_PORT = "KUBERNETES_SERVICE_PORT"


class CredentialsError(Exception):
    """No usable credentials; the message names where they were looked for and what to do."""


@dataclass(frozen=True, slots=True)
class InCluster:
    """The ServiceAccount of the pod that Muster runs in; `folder` holds its `token` and `ca.crt`."""

    host: str
    port: str
    folder: Path = SERVICE_ACCOUNT

    def __str__(self) -> str:
        """Render for messages."""
        return f"the pod's ServiceAccount ({self.folder})"


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """A context of kubeconfig files; the first file that sets a value wins. `context` None is the current one."""

    files: tuple[Path, ...]
    context: str | None = None

    def __str__(self) -> str:
        """Render for messages."""
        files = os.pathsep.join(map(str, self.files))
        return f"kubeconfig {files}" if self.context is None else f"context {self.context} of kubeconfig {files}"


CredentialSource: TypeAlias = InCluster | KubeConfig


def find_credentials(
    environment: Mapping[str, str],
    kubeconfig: Path | None = None,
    context: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> CredentialSource:
    """Choose the source: what the caller names, else the pod's ServiceAccount, else KUBECONFIG, else `~/.kube/config`.

    Raises CredentialsError when there is none.
    """
    if kubeconfig is not None:
        return _existing((kubeconfig,), context, "the file that was asked for")
    host, port = environment.get(SERVICE_HOST, ""), environment.get(SERVICE_PORT, "")
    if host and port and context is None:
        return InCluster(host, port, service_account)
    if listed := environment.get("KUBECONFIG"):
        return _existing(tuple(Path(part) for part in listed.split(os.pathsep) if part), context, "KUBECONFIG")
    home = Path(environment.get("HOME") or Path.home())
    return _existing((home / ".kube" / "config",), context, "the default")


def _existing(files: tuple[Path, ...], context: str | None, why: str) -> KubeConfig:
    """Leave out files that do not exist, as kubectl does; raise CredentialsError if none is left."""
    found = tuple(file for file in files if file.expanduser().is_file())
    if not found:
        named = ", ".join(map(str, files)) or "nothing"
        raise CredentialsError(
            f"no kubeconfig: {named} ({why}) is not a file; name one with --kubeconfig or KUBECONFIG, "
            f"or run in a pod with a ServiceAccount"
        )
    return KubeConfig(found, context)
