"""Rules about the extenders: is Muster among them, and is it called so that gangs stay whole?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import SplitResult, urlsplit

from extender.cli.callers import is_loopback
from extender.objects.text import parse_go_duration
from muster_lab.tools.schedulerconfig.document import Extender
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding, error, warning

#: Where Muster's verbs are, and what they are called.
PATH = "/v1"
VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "preemptVerb": "preempt"}

#: Seconds. Source: DefaultExtenderTimeout in kube-scheduler's extender.go.
DEFAULT_TIMEOUT_SECONDS = 5.0
#: An extender's scores count up to 100 x weight, the default plugins' up to 1200 in sum (weights 3, 2, 2, 2, 1, 1, 1).
#: A higher weight than this overrules all of them.
HIGHEST_WEIGHT = 12

_WITHOUT = {
    "filterVerb": "kube-scheduler chooses the nodes itself: members go elsewhere than planned, and bind refuses them",
    "bindVerb": "kube-scheduler binds each member as it comes: a gang can start in part",
    "preemptVerb": "kube-scheduler evicts pods, one node at a time, for a gang that would still not fit",
    "prioritizeVerb": "single pods are spread over all nodes, and leave no node whole for gangs",
}


def check_extenders(extenders: Sequence[Extender], expected: Expectations) -> Iterator[Finding]:
    """Yield what is wrong with the extenders."""
    musters = find_muster(extenders, expected.port)
    if not musters:
        told = f"an extender with urlPrefix: http://127.0.0.1:{expected.port}{PATH}, as in scheduler-config/muster.yaml"
        if not extenders:
            yield error("extenders", "no extender: Muster is never asked, and gangs start in part", told)
        else:
            yield error("extenders", f"none of them is Muster (port {expected.port}, {PATH})", told)
    for index in musters[:1]:
        yield from _check_muster(extenders[index], f"extenders[{index}]", expected)
    for index in musters[1:]:
        problem = f"Muster is asked a second time, after extenders[{musters[0]}]"
        yield error(f"extenders[{index}]", problem, "one entry for Muster")
    binders = [index for index, extender in enumerate(extenders) if extender.bind_verb]
    for index in (binder for binder in binders[1:] if binder not in musters[1:]):
        yield error(
            f"extenders[{index}].bindVerb",
            f"extenders[{binders[0]}] has one, too; kube-scheduler refuses to start with two",
            "no bindVerb, except Muster's",
        )


def find_muster(extenders: Sequence[Extender], port: int) -> list[int]:
    """Return the positions of the extenders that are Muster, or are meant to be.

    Those at its port; else those on loopback with its path; else the only one there is.
    """
    urls = [_split(extender.url_prefix) for extender in extenders]
    at_port = [index for index, url in enumerate(urls) if url is not None and _port(url) == port]
    if at_port:
        return at_port
    alike = [i for i, url in enumerate(urls) if url is not None and _loopback(url) and url.path.rstrip("/") == PATH]
    if alike or len(extenders) != 1:
        return alike
    return [0]


def _check_muster(extender: Extender, path: str, expected: Expectations) -> Iterator[Finding]:
    yield from _check_address(extender, path, expected.port)
    yield from _check_verbs(extender, path)
    yield from _check_timeout(extender, path, expected)
    if extender.managed_resources:
        yield error(
            f"{path}.managedResources",
            "pods that ask for none of these, such as a gang's CPU-only launcher, bypass Muster, and their gang never "
            "gathers",
            "nothing: leave the field out",
        )
    if extender.ignorable:
        yield error(
            f"{path}.ignorable",
            "while Muster does not answer, members are placed without it, and gangs start in part",
            "false",
        )
    if not extender.node_cache_capable:
        yield warning(f"{path}.nodeCacheCapable", "whole nodes are sent with every call: 40 MB at 5,000 nodes", "true")


def _check_address(extender: Extender, path: str, port: int) -> Iterator[Finding]:
    place, url = f"{path}.urlPrefix", _split(extender.url_prefix)
    if url is None or url.scheme not in {"http", "https"} or not url.hostname:
        yield error(place, "is no URL that can be called", f"http://127.0.0.1:{port}{PATH}")
        return
    if _port(url) != port:
        yield error(place, f"goes to port {_port(url)}; Muster listens on {port}", f"port {port}, or --port for Muster")
    if url.path.rstrip("/") != PATH or url.query:
        yield error(place, f"Muster's verbs are under {PATH}; every call is answered with 404", f"the path {PATH}")
    if url.scheme == "https":
        yield from _check_tls(extender, path)
        return
    if not _loopback(url):
        yield error(
            place,
            "plain HTTP over a network: Muster offers its verbs so on loopback only, since who reaches them can place "
            "pods",
            f"http://127.0.0.1:{port}{PATH} with Muster in the same pod, or https with client certificates",
        )
    if extender.enable_https or extender.tls_config is not None:
        field = "enableHTTPS" if extender.enable_https else "tlsConfig"
        yield error(
            f"{path}.{field}", "has no effect: the scheme of urlPrefix decides, and it is http", "https:// there"
        )


def _check_tls(extender: Extender, path: str) -> Iterator[Finding]:
    tls = extender.tls_config
    if tls is None or not (tls.ca_file or tls.ca_data):
        if extender.enable_https or (tls is not None and tls.insecure):
            problem = "without a CA kube-scheduler accepts any server in Muster's place"
        else:
            problem = "Muster's certificate is checked against the system's CAs, which did not sign it"
        yield error(f"{path}.tlsConfig", problem, "caFile: the CA that signed Muster's certificate")
    elif tls.insecure:
        yield error(f"{path}.tlsConfig.insecure", "kube-scheduler refuses to start with insecure and a CA", "false")
    if tls is None or not ((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)):
        problem = "kube-scheduler has no certificate to show, and Muster's verbs are for callers with one"
        yield error(f"{path}.tlsConfig", problem, "certFile and keyFile")


def _check_verbs(extender: Extender, path: str) -> Iterator[Finding]:
    given = {
        "filterVerb": extender.filter_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "bindVerb": extender.bind_verb,
        "preemptVerb": extender.preempt_verb,
    }
    for field, verb in VERBS.items():
        if not given[field]:
            find = warning if field == "prioritizeVerb" else error
            yield find(f"{path}.{field}", f"is missing: {_WITHOUT[field]}", verb)
        elif given[field].strip("/") != verb:
            yield error(f"{path}.{field}", f"Muster has no verb {given[field]}; the call is answered with 404", verb)
    if not extender.prioritize_verb:
        return
    if extender.weight <= 0:
        yield error(f"{path}.weight", "kube-scheduler refuses to start: prioritizeVerb needs a positive weight", "5")
    elif extender.weight > HIGHEST_WEIGHT:
        problem = f"above {HIGHEST_WEIGHT}, what a pod itself prefers (affinity, spread) no longer matters"
        yield warning(f"{path}.weight", problem, "5")


def _check_timeout(extender: Extender, path: str, expected: Expectations) -> Iterator[Finding]:
    place, wanted = f"{path}.httpTimeout", f"{expected.http_timeout_seconds:g}s"
    seconds = parse_go_duration(extender.http_timeout) if extender.http_timeout else 0.0
    if seconds is None:
        problem = f"kube-scheduler refuses to start: {extender.http_timeout!r} is no duration as Go writes them"
        yield error(place, problem, wanted)
        return
    effective = seconds or DEFAULT_TIMEOUT_SECONDS
    told = f"{effective:g} s" if seconds else f"is missing, which means {effective:g} s"
    if effective <= expected.bind_hold_seconds:
        yield error(
            place,
            f"{told}, and Muster holds bind for up to {expected.bind_hold_seconds:g} s (bind_hold_seconds) while the "
            "rest of a gang arrives: kube-scheduler gives up first, and the gang is torn up",
            wanted,
        )
    elif effective < expected.http_timeout_seconds:
        problem = (
            f"{told}; Muster is told {expected.http_timeout_seconds:g} s (http_timeout_seconds), and goes on writing "
            "Bindings that kube-scheduler has given up"
        )
        yield error(place, problem, f"{wanted}, or http_timeout_seconds: {effective:g} for Muster")
    elif effective > expected.http_timeout_seconds:
        problem = (
            f"{told}; Muster is told {expected.http_timeout_seconds:g} s (http_timeout_seconds), and stops before that"
        )
        yield warning(place, problem, f"{wanted}, or http_timeout_seconds: {effective:g} for Muster")


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, None for what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _loopback(url: SplitResult) -> bool:
    return is_loopback(url.hostname or "")
