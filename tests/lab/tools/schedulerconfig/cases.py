"""Each way to break the shipped configuration: the change, what is found, and whether kube-scheduler itself refuses it.

The control-plane tests hold `refused` against the real kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.lab.tools.schedulerconfig.conftest import Change


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake. `words` stands in the problem or in what to write instead.

    Certificates that are named here do not exist, and plugins that are enabled neither: kube-scheduler refuses those.
    """

    name: str
    change: Change
    severity: str
    path: str
    words: str
    refused: bool = False


def extender(**fields: Any) -> Change:
    """Change fields of the extender; None takes a field away."""
    return lambda document: _set(document["extenders"][0], fields)


def top(**fields: Any) -> Change:
    """Change fields of the document."""
    return lambda document: _set(document, fields)


def election(**fields: Any) -> Change:
    """Change fields of leaderElection."""
    return lambda document: _set(document["leaderElection"], fields)


def client(**fields: Any) -> Change:
    """Change fields of clientConnection."""
    return lambda document: _set(document["clientConnection"], fields)


def profile(**fields: Any) -> Change:
    """Change fields of the only profile."""
    return lambda document: _set(document["profiles"][0], fields)


def plugins(point: str, **sets: list[str]) -> Change:
    """Enable or disable plugins at an extension point."""
    entries = {field: [{"name": name} for name in names] for field, names in sets.items()}
    return profile(plugins={point: entries})


def _set(mapping: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is None:
            mapping.pop(name, None)
        else:
            mapping[name] = value


def _second_binder(document: dict[str, Any]) -> None:
    document["extenders"].append({"urlPrefix": "http://127.0.0.1:9000/other", "bindVerb": "bind"})


def _muster_twice(document: dict[str, Any]) -> None:
    document["extenders"].append({"urlPrefix": "http://127.0.0.1:10261/v1", "filterVerb": "filter"})


def _second_profile(name: str | None) -> Change:
    return lambda document: document["profiles"].append({} if name is None else {"schedulerName": name})


_E = "extenders[0]"
_TLS = {"caFile": "/ca.crt", "certFile": "/tls.crt", "keyFile": "/tls.key"}
_HTTPS = "https://127.0.0.1:10261/v1"

CASES = [
    Case("no extenders", top(extenders=None), "error", "extenders", "never asked"),
    Case("empty extenders", top(extenders=[]), "error", "extenders", "never asked"),
    Case("Muster twice", _muster_twice, "error", "extenders[1]", "a second time"),
    Case("two binders", _second_binder, "error", "extenders[1].bindVerb", "extenders[0] has one", refused=True),
    # The address
    Case("no address", extender(urlPrefix=None), "error", f"{_E}.urlPrefix", "no URL"),
    Case("no scheme", extender(urlPrefix="127.0.0.1:10261/v1"), "error", f"{_E}.urlPrefix", "no URL"),
    Case("port that is none", extender(urlPrefix="http://[::1:x"), "error", f"{_E}.urlPrefix", "no URL"),
    Case("other port", extender(urlPrefix="http://127.0.0.1:8888/v1"), "error", f"{_E}.urlPrefix", "port 8888"),
    Case("no port", extender(urlPrefix="http://127.0.0.1/v1"), "error", f"{_E}.urlPrefix", "port 80;"),
    Case("no path", extender(urlPrefix="http://127.0.0.1:10261"), "error", f"{_E}.urlPrefix", "404"),
    Case("other path", extender(urlPrefix="http://localhost:10261/v2"), "error", f"{_E}.urlPrefix", "404"),
    Case("HTTP over a network", extender(urlPrefix="http://10.0.0.1:10261/v1"), "error", f"{_E}.urlPrefix", "plain"),
    Case("HTTP by name", extender(urlPrefix="http://muster:10261/v1"), "error", f"{_E}.urlPrefix", "plain HTTP"),
    Case("TLS without https", extender(enableHTTPS=True), "error", f"{_E}.enableHTTPS", "the scheme of urlPrefix"),
    Case("TLS files without https", extender(tlsConfig=_TLS), "error", f"{_E}.tlsConfig", "the scheme", refused=True),
    Case("https without CA", extender(urlPrefix=_HTTPS, enableHTTPS=True), "error", f"{_E}.tlsConfig", "any server"),
    Case("https with the system's CAs", extender(urlPrefix=_HTTPS), "error", f"{_E}.tlsConfig", "system's CAs"),
    Case(
        "https without a certificate of its own",
        extender(urlPrefix=_HTTPS, tlsConfig={"caData": "Y2E="}),
        "error",
        f"{_E}.tlsConfig",
        "no certificate to show",
        refused=True,
    ),
    Case(
        "https with CA and insecure",
        extender(urlPrefix=_HTTPS, tlsConfig={**_TLS, "insecure": True}),
        "error",
        f"{_E}.tlsConfig.insecure",
        "refuses to start",
        refused=True,
    ),
    # The verbs
    Case("no filter", extender(filterVerb=None), "error", f"{_E}.filterVerb", "elsewhere than planned"),
    Case("no bind", extender(bindVerb=None), "error", f"{_E}.bindVerb", "start in part"),
    Case("no preempt", extender(preemptVerb=""), "error", f"{_E}.preemptVerb", "evicts pods"),
    Case("no prioritize", extender(prioritizeVerb=None), "warning", f"{_E}.prioritizeVerb", "no node whole"),
    Case("wrong verb", extender(filterVerb="predicates"), "error", f"{_E}.filterVerb", "no verb predicates"),
    Case("no weight", extender(weight=None), "error", f"{_E}.weight", "positive weight", refused=True),
    Case("large weight", extender(weight=20), "warning", f"{_E}.weight", "no longer matters"),
    # What breaks gangs
    Case("managed resources", extender(managedResources=[{"name": "nvidia.com/gpu"}]), "error",
         f"{_E}.managedResources", "bypass Muster"),
    Case("ignorable", extender(ignorable=True), "error", f"{_E}.ignorable", "placed without it"),
    Case("whole nodes", extender(nodeCacheCapable=None), "warning", f"{_E}.nodeCacheCapable", "40 MB"),
    Case("no timeout", extender(httpTimeout=None), "error", f"{_E}.httpTimeout", "missing, which means 5 s"),
    Case("timeout of zero", extender(httpTimeout="0s"), "error", f"{_E}.httpTimeout", "missing, which means 5 s"),
    Case("short timeout", extender(httpTimeout="20s"), "error", f"{_E}.httpTimeout", "torn up"),
    Case("timeout below Muster's", extender(httpTimeout="25s"), "error", f"{_E}.httpTimeout", "has given up"),
    Case("timeout above Muster's", extender(httpTimeout="1m"), "warning", f"{_E}.httpTimeout", "stops before"),
    Case("timeout with a space", extender(httpTimeout="30 s"), "error", f"{_E}.httpTimeout", "as Go", refused=True),
    Case("timeout without unit", extender(httpTimeout="30"), "error", f"{_E}.httpTimeout", "as Go", refused=True),
    Case("timeout as a number", extender(httpTimeout=30), "error", f"{_E}.httpTimeout", 'such as "30"', refused=True),
    # Nodes and profiles
    Case("sampled", top(percentageOfNodesToScore=None), "error", "percentageOfNodesToScore", "offers a sample"),
    Case("sampled by half", top(percentageOfNodesToScore=50), "error", "percentageOfNodesToScore", "50: "),
    Case("sampled in the profile", profile(percentageOfNodesToScore=0), "error",
         "profiles[0].percentageOfNodesToScore", "0: "),
    Case("other pods", profile(schedulerName="gpu"), "error", "profiles[0].schedulerName", "[muster, gpu] for Muster"),
    Case("nobody for Muster's pods", profile(schedulerName="gpu"), "error", "profiles", "no profile is called muster"),
    Case("all pods", _second_profile("default-scheduler"), "warning", "profiles[1].schedulerName", "every pod"),
    Case("profile twice", _second_profile("muster"), "error", "profiles[1].schedulerName", "same name", refused=True),
    Case("profile without name", _second_profile(None), "error", "profiles[1].schedulerName", "missing", refused=True),
    Case("no profiles", top(profiles=None), "error", "profiles", "no profile is called muster"),
    # Plugins
    Case("no room check", plugins("filter", disabled=["NodeResourcesFit"]), "error",
         "profiles[0].plugins.filter.disabled", "has room"),
    Case("no room check anywhere", plugins("multiPoint", disabled=["NodeResourcesFit"]), "error",
         "profiles[0].plugins.multiPoint.disabled", "has room"),
    Case("no bind plugin", plugins("bind", disabled=["DefaultBinder"]), "error",
         "profiles[0].plugins.bind.disabled", "without a bind plugin", refused=True),
    Case("bind plugin that is never called", plugins("bind", enabled=["Mine"]), "warning",
         "profiles[0].plugins.bind.enabled", "never called", refused=True),
    Case("second gang scheduler", plugins("multiPoint", enabled=["Coscheduling"]), "warning",
         "profiles[0].plugins.multiPoint.enabled", "before they reach bind", refused=True),
    Case("permit plugin", plugins("permit", enabled=["Gate"]), "warning",
         "profiles[0].plugins.permit.enabled", "before they reach bind", refused=True),
    # The process
    Case("slow client", client(qps=None), "warning", "clientConnection.qps", "50 requests a second, where nothing"),
    Case("slower client", client(qps=20), "warning", "clientConnection.qps", "20 requests a second"),
    Case("small burst", client(burst=100), "warning", "clientConnection.burst", "100 requests at once"),
    Case("negative burst", client(burst=-1), "error", "clientConnection.burst", "negative", refused=True),
    Case("no leader election", election(leaderElect=False), "warning", "leaderElection.leaderElect", "the same pods"),
    Case("the cluster's own Lease", election(resourceName=None, resourceNamespace=None), "error",
         "leaderElection.resourceName", "the cluster's own"),
    Case("lock of another kind", election(resourceLock="endpoints"), "error",
         "leaderElection.resourceLock", "does not start", refused=True),
    Case("short Lease", election(leaseDuration="5s", renewDeadline="5s", retryPeriod="1s"), "error",
         "leaderElection.leaseDuration", "above renewDeadline", refused=True),
    Case("slow retries", election(leaseDuration="15s", renewDeadline="2s", retryPeriod="2s"), "error",
         "leaderElection.renewDeadline", "1.2 x retryPeriod"),
    Case("Lease in words", election(leaseDuration="long"), "error",
         "leaderElection.leaseDuration", "no duration", refused=True),
    Case("no backoff", top(podInitialBackoffSeconds=0), "error", "podInitialBackoffSeconds", "above 0", refused=True),
    Case("backoff upside down", top(podInitialBackoffSeconds=20), "error",
         "podMaxBackoffSeconds", "below podInitialBackoffSeconds", refused=True),
    Case("long backoff", top(podMaxBackoffSeconds=30), "warning", "podMaxBackoffSeconds", "up to 30 s"),
    Case("endless backoff", top(podMaxBackoffSeconds=60), "error", "podMaxBackoffSeconds", "its reservation"),
    Case("no workers", top(parallelism=0), "error", "parallelism", "above 0", refused=True),
    Case("cold standby", top(delayCacheUntilActive=True), "warning", "delayCacheUntilActive", "failover"),
    # What is not a configuration of this version
    Case("typo", extender(ignoreable=False), "error", f"{_E}.ignoreable", "ignorable", refused=True),
    Case("typo at the top", top(percentageOfNodesToScores=100), "error",
         "percentageOfNodesToScores", "percentageOfNodesToScore", refused=True),
    Case("nothing like it", top(colour="red"), "error", "colour", "one of: apiVersion", refused=True),
    Case("wrong case", extender(bindverb="bind"), "error", f"{_E}.bindverb", "bindVerb", refused=True),
    Case("text for a number", extender(weight="5"), "error", f"{_E}.weight", "a whole number", refused=True),
    Case("text for a list", top(extenders="muster"), "error", "extenders", "a list", refused=True),
    Case("text for a mapping", top(leaderElection="on"), "error", "leaderElection", "a mapping", refused=True),
    Case("text for a switch", extender(ignorable="no"), "error", f"{_E}.ignorable", "true or false", refused=True),
    Case("old version", top(apiVersion="kubescheduler.config.k8s.io/v1beta3"), "error",
         "apiVersion", "v1beta3 is gone", refused=True),
    Case("no version", top(apiVersion=None), "error", "apiVersion", "missing", refused=True),
]  # fmt: skip
