"""Requests to the API that people ask, drawn from its OpenAPI document: parameters that there are, odd ones, bodies."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, quote_from_bytes

import yaml

from extender.objects.pod import Pod
from tests.fuzz.messages import Request
from tests.fuzz.spoiling import Spoiler, written
from tests.fuzz.subject import NODES

_EXAMPLES = Path(__file__).parents[2] / "examples"
#: How often a path is asked for whose answer takes long, 1 being as often as the others.
_SELDOM = {
    "/api/v1/snapshot": 0.004,
    "/openapi.json": 0.02,
    "/metrics": 0.1,
    "/api/v1/report": 0.3,
    "/api/v1/curves": 0.5,
}
#: Texts that one parameter or another may be; each is tried for all of them.
_TEXTS = (
    "", "default", "gang", "large", "single", "running", "ghost", "team-a", "a" * 300, "ä", "\0", "../..", "%", "*",
    "a=b", "a in (b,c)", "!a", "a!=b,c notin (d)", "((", "a in ()", "=", ",", "UTC", "Europe/Berlin", "../etc/passwd",
    "localtime", "posixrules", "1.5,2", "0,0", "9" * 12 + ",1", "9" * 400, "-1", "0", "1", "1e999", "nan", "inf",
    "²", "0x10", "'", "true", "false", "yes", "2026-11-26T09:30:00Z", "2026-11-26T09:30:00.123456789+23:59",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z", "2026-02-30T00:00:00Z", "2026-11-26", *NODES[:2],
)  # fmt: skip
_TIMES = ("2026-11-26T09:30:00Z", "2016-01-01T00:00:00Z", "2026-11-25T00:00:00Z", "2030-01-01T00:00:00Z")
_HEADERS = (
    (b"accept-encoding", b"gzip"),
    (b"range", b"bytes=0-1"),
    (b"if-none-match", b"*"),
    (b"last-event-id", b"99999999999999999999"),
    (b"x-forwarded-for", b"\xff" * 100),
    (b"authorization", b"Bearer alice"),
    (b"authorization", b"Bearer \xff\xfe"),
    (b"authorization", b"bearer    "),
    (b"authorization", b"Bearer " + b"x" * 5000),
)


class Questions:
    """Draw requests to every operation of an OpenAPI document but the verbs, which have a form of their own."""

    def __init__(self, document: Mapping[str, Any], random: Random, spoiler: Spoiler) -> None:
        """Read the operations."""
        self._random = random
        self._spoiler = spoiler
        self._operations: list[tuple[str, str, Sequence[Mapping[str, Any]]]] = [
            (method.upper(), path, operation.get("parameters", ()))
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if not path.startswith("/v1/")
        ] + [("GET", "/openapi.json", ()), ("GET", "/", ()), ("GET", "/dashboard/x/{name}", ())]
        self._weights = [_SELDOM.get(path, 1.0) for _, path, _ in self._operations]
        self._submissions = [list(yaml.safe_load_all(path.read_text())) for path in sorted(_EXAMPLES.glob("*/*.yaml"))]

    def request(self, pods: Sequence[Pod]) -> Request:
        """Return the next question; many are about the gang of one of `pods`."""
        random = self._random
        ((method, path, parameters),) = random.choices(self._operations, self._weights)
        pod = random.choice(pods)
        there = {"namespace": pod.namespace, "name": pod.group.name or pod.name}
        for name, value in there.items():
            text = value if random.random() < 0.8 else random.choice(_TEXTS)
            path = path.replace(f"{{{name}}}", text.replace("/", "-") or "-")
        query = self._query([each for each in parameters if each["in"] == "query"])
        headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)
        if random.random() < 0.1:
            headers += (random.choice(_HEADERS),)
        return Request(method, path, self._body() if method == "POST" else b"", headers, query)

    def _body(self) -> bytes:
        random = self._random
        if random.random() < 0.05:
            return written(self._spoiler.anything(4))
        document = {"objects": copy.deepcopy(random.choice(self._submissions))}
        for _ in range(random.randrange(4)):
            self._spoiler.spoil(document)
        body = written(document)
        return self._spoiler.garble(body) if random.random() < 0.1 else body

    def _query(self, parameters: Sequence[Mapping[str, Any]]) -> bytes:
        random = self._random
        given = random.sample(parameters, min(len(parameters), random.randrange(4)))
        pairs = [(each["name"], self._value(each["schema"])) for each in given]
        if random.random() < 0.05:
            pairs.append((random.choice(_TEXTS), random.choice(_TEXTS)))
        if pairs and random.random() < 0.05:
            pairs.append(random.choice(pairs))
        query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs).encode()
        return quote_from_bytes(self._spoiler.garble(query), "&=%+").encode() if random.random() < 0.05 else query

    def _value(self, schema: Mapping[str, Any]) -> str:
        """Return a value that a parameter may have, or any other."""
        random = self._random
        if random.random() < 0.3:
            return random.choice(_TEXTS)
        if "enum" in schema:
            return str(random.choice(schema["enum"]))
        if schema.get("format") == "date-time":
            return random.choice(_TIMES)
        match schema.get("type"):
            case "integer" | "number":
                least, most = schema.get("minimum", 0), schema.get("maximum", 10**6)
                return str(random.choice((least, most, least - 1, most + 1, random.randint(least, most))))
            case "boolean":
                return random.choice(("true", "false", "1", "0"))
        return random.choice(_TEXTS)
