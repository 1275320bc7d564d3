"""Which requests a browser sends on behalf of a foreign page: those are refused.

A page of any site can have the browser of a person who looks at it send requests to that person's loopback address, and
after rebinding its own name to that address (DNS rebinding) read the answers too. Host and Origin tell: a browser
writes both, and no page can change them. kube-scheduler, Prometheus and probes send no Origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_LOCALHOST = "localhost"
_USUAL = frozenset({"127.0.0.1", "::1", _LOCALHOST})
#: Methods that change nothing here.
_SAFE = frozenset({b"GET", b"HEAD", b"OPTIONS"})


def foreign(method: bytes, headers: Mapping[bytes, bytes], *, loopback: bool) -> str:
    """Return why a request is refused as a foreign page's, "" if it is not.

    Args:
        method: in capitals.
        headers: by name in lower case; of several of one name, the last.
        loopback: whether it came to a loopback address: then Host must name one, and Origin, if there is one, must be
            that host. Elsewhere only requests that change something are looked at.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if loopback and host and not is_loopback(host_name(host)):
        return f"Host {host[:100]} is not a name of this listener: ask for localhost"
    origin = headers.get(b"origin")
    if origin is None or (method in _SAFE and not loopback):
        return ""
    text = origin.decode("latin-1").lower()
    if _origin_host(text) == host or (not loopback and headers.get(b"sec-fetch-site") == b"same-origin"):
        return ""
    return f"a page of {text[:100]} may not ask here: use the page that this listener serves"


def host_name(host: str) -> str:
    """Return the name or address in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Tell whether a name or an address can only be of the machine itself."""
    if name in _USUAL or name.endswith(f".{_LOCALHOST}"):
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _origin_host(origin: str) -> str:
    """Return host and port of an Origin, "" for none such as `null`."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
