"""Which gang a request is about."""

from __future__ import annotations

import re

from fastapi import HTTPException

from extender.control.controller import Controller
from extender.domain.membership import GroupRef
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready

#: What a namespace may be called, and what a gang: the name of an object, or the value of a label.
#: Source: k8s.io/apimachinery/pkg/api/validate/content.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_GANG = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)

_BAD_REQUEST, _NOT_FOUND = 400, 404
_FAILURES = {
    _BAD_REQUEST: "What cannot be the name of a namespace or gang; `detail` quotes it.",
    _NOT_FOUND: "There is no such gang; `detail` says what to look at.",
    UNAVAILABLE: NOT_READ_YET,
}
#: How requests about a gang fail, for OpenAPI.
GANG_FAILURES: dict[int | str, dict[str, object]] = {
    status: {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}
    for status, text in _FAILURES.items()
}


def find_gang(controller: Controller, namespace: str, name: str) -> GroupRef:
    """Return the gang of that name; raise HTTPException if there cannot be one, there is none, or nobody knows yet."""
    for what, text, pattern in (("namespace", namespace, _NAMESPACE), ("gang", name, _GANG)):
        if pattern.fullmatch(text) is None:
            raise HTTPException(_BAD_REQUEST, f"{text[:100]!r} cannot be the name of a {what}")
    require_ready(controller)
    ref = controller.inspection.find(namespace, name)
    if ref is None:
        raise HTTPException(
            _NOT_FOUND, f"no gang {namespace}/{name}: neither a PodGroup nor a pod of that name's gang is there"
        )
    return ref
