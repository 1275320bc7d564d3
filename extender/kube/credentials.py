"""The credentials for the API server: where they come from, and how they are read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.aio import config as untyped_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import incluster_config

from extender.clock import Clock

#: The package's functions that read configuration have no types.
_config: Any = untyped_config

#: How often a token in a file is read again. The kubelet replaces it at 80 % of its life, an hour at the least.
_TOKEN_FILE_SECONDS = 60.0
#: How long before its end an exec plugin's credential is replaced.
_EXPIRY_MARGIN_SECONDS = 60.0
#: How long an exec plugin may take.
_PLUGIN_SECONDS = 60.0

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


@dataclass(frozen=True, slots=True)
class Credentials:
    """What was read from a source, and how many seconds it is good for: None until the server refuses it."""

    configuration: Configuration
    good_for: float | None


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


async def read_credentials(source: CredentialSource, clock: Clock) -> Credentials:
    """Read credentials; raise CredentialsError naming the source."""
    configuration = Configuration()
    try:
        if isinstance(source, InCluster):
            loader = _in_cluster_loader(source)
            loader.load_and_set(configuration)
            good_for: float | None = _TOKEN_FILE_SECONDS
        else:
            async with asyncio.timeout(_PLUGIN_SECONDS):
                loader = await _config.load_kube_config(
                    config_file=os.pathsep.join(map(str, source.files)),
                    context=source.context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            good_for = _good_for(loader, configuration, clock)
            configuration.proxy = configuration.proxy or _environment_proxy(configuration.host)
    # The package lets whatever its parsing meets through, TypeErrors for a missing section included.
    except (_config.ConfigException, OSError, TypeError, LookupError, ValueError, yaml.YAMLError) as error:
        raise CredentialsError(
            f"{source} cannot be used: {_wrong_context(source) or error or type(error).__name__}"
        ) from error
    # Files often end in a newline, which the package would send as part of the header.
    configuration.api_key = {name: value.strip() for name, value in configuration.api_key.items()}
    return Credentials(configuration, good_for)


def read_namespace(source: CredentialSource) -> str:
    """Return the namespace of a ServiceAccount or context, `default` if it has none; raise CredentialsError."""
    try:
        if isinstance(source, InCluster):
            return (source.folder / "namespace").read_text(encoding="utf-8").strip() or "default"
        files = [yaml.safe_load(file.expanduser().read_text(encoding="utf-8")) or {} for file in source.files]
        named = (file.get("current-context") for file in files)
        current = source.context or next((name for name in named if name), None)
        contexts = (each["context"] for file in files for each in file.get("contexts") or () if each["name"] == current)
        return str((next(contexts, None) or {}).get("namespace") or "default")
    except (OSError, TypeError, LookupError, ValueError, AttributeError, yaml.YAMLError) as error:
        raise CredentialsError(f"{source} cannot be used: {str(error) or type(error).__name__}") from error


def _wrong_context(source: CredentialSource) -> str:
    """Return that a kubeconfig has no context of the name that was asked for, with those it has; "" if it has it."""
    if isinstance(source, InCluster) or source.context is None:
        return ""
    try:
        files = [yaml.safe_load(file.expanduser().read_text(encoding="utf-8")) or {} for file in source.files]
        names = sorted(str(each["name"]) for file in files for each in file.get("contexts") or ())
    except (OSError, TypeError, LookupError, ValueError, AttributeError, yaml.YAMLError):
        return ""
    return "" if source.context in names else f"no such context; there are {', '.join(names) or 'none'}"


def _in_cluster_loader(source: InCluster) -> Any:  # noqa: ANN401 - the package's class has no types
    untyped: Any = incluster_config
    return untyped.InClusterConfigLoader(
        token_filename=str(source.folder / "token"),
        cert_filename=str(source.folder / "ca.crt"),
        try_refresh_token=False,  # its hook would not read the file on a 401, and restores the newline
        environ={SERVICE_HOST: source.host, SERVICE_PORT: source.port},
    )


def _good_for(loader: Any, configuration: Configuration, clock: Clock) -> float | None:  # noqa: ANN401 - no types
    """Return for how many seconds what a kubeconfig gave can be used; raise ValueError if its plugin gave nothing."""
    user = loader._user  # noqa: SLF001 - the package offers no other way to tell where the token came from
    if user is None or not ("exec" in user or "tokenFile" in user):
        return None
    if "exec" not in user:
        return _TOKEN_FILE_SECONDS
    if not configuration.api_key and not configuration.cert_file:
        raise ValueError(f"exec plugin {user['exec']['command']} gave no credential; run it by hand to see why")
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if expiry is None:
        return None
    return float((expiry - clock.now()).total_seconds()) - _EXPIRY_MARGIN_SECONDS


def _environment_proxy(url: str) -> str | None:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ask for, as client-go does."""
    address = urlsplit(url)
    if proxy_bypass(address.hostname or ""):
        return None
    return getproxies().get(address.scheme)
