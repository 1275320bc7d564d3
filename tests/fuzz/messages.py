"""What is sent and what comes back, and how requests are kept in files; nothing of Muster is imported for it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    method: str
    path: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)
    query: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    content_type: str


def line_of(request: Request) -> str:
    """Return a request as a line of JSON, bytes in base64."""
    return json.dumps(asdict(request), default=lambda value: base64.b64encode(value).decode())


def request_of(line: str) -> Request:
    """Return the request that a line is about."""
    told = json.loads(line)
    headers = tuple((base64.b64decode(name), base64.b64decode(value)) for name, value in told["headers"])
    body, query = (base64.b64decode(told[part]) for part in ("body", "query"))
    return Request(told["method"], told["path"], body, headers, query)
