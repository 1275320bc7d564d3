"""Serving the dashboard's files: from the installed package, compressed once, kept by browsers while they hold."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Self

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

_NOT_MODIFIED, _NOT_FOUND = 304, 404
_INDEX = "index.html"
#: What stands in the page where its files are; relative, so that the page works behind any proxy's path.
_ASSETS: Final = b"{{assets}}"
#: What stands in the page where all modules are asked for at once, not one after the other has named the next.
_MODULES: Final = b"{{modules}}"
_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
#: The page runs its own modules and asks its own service, nothing else; no site may put it into a frame.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
#: Asked for again each time, which costs a 304: a new release shows at the next load.
_REVALIDATE: Final = "no-cache"
#: The path changes with the content, so what it leads to never does.
_FOR_EVER: Final = "public, max-age=31536000, immutable"

_SWITCHED_OFF: Final = (
    "The dashboard is switched off (setting dashboard: false).\n"
    "What it shows is told by `muster status`, `muster gangs` and `muster explain` too.\n"
)


@dataclass(frozen=True, slots=True)
class Page:
    """One file as it is sent, plain and compressed; `tag` stands for its content."""

    body: bytes
    packed: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Self:
        """Return the file of that name; equal content gives equal bytes and an equal tag.

        Raises:
            ValueError: the type of a file is not known.
        """
        kind = name.rpartition(".")[2]
        if kind not in _MEDIA_TYPES:
            raise ValueError(f"{name}: the dashboard has files of the kinds {', '.join(_MEDIA_TYPES)} only")
        return cls(body, gzip.compress(body, mtime=0), _MEDIA_TYPES[kind], f'W/"{_digest(body)}"')


@dataclass(frozen=True, slots=True)
class Pages:
    """The dashboard's files. `version` stands for the content of all of them together."""

    version: str
    index: Page
    assets: Mapping[str, Page]

    @classmethod
    def of(cls, bodies: Mapping[str, bytes]) -> Self:
        """Return the pages made of files by name, `index.html` among them, which is told where the others are."""
        version = _digest(b"".join(name.encode() + b"\0" + bodies[name] + b"\0" for name in sorted(bodies)))
        modules = "\n".join(
            f'<link rel="modulepreload" href="dashboard/{version}/{name}">'
            for name in sorted(bodies)
            if name.endswith(".js")
        )
        index = bodies[_INDEX].replace(_MODULES, modules.encode()).replace(_ASSETS, f"dashboard/{version}".encode())
        assets = {name: Page.of(name, body) for name, body in bodies.items() if name != _INDEX}
        return cls(version, Page.of(_INDEX, index), assets)


def read_pages() -> Pages:
    """Return the dashboard's files from the installed package."""
    found = (file for file in files(__package__).joinpath("static").iterdir() if not file.name.startswith("."))
    return Pages.of({file.name: file.read_bytes() for file in found if file.is_file()})


def dashboard_routes(*, shown: bool) -> list[BaseRoute]:
    """Return the page at `/` and its files, or what says at `/` that there is none, and where else to look."""
    if not shown:
        return [Route("/", _switched_off)]
    pages = read_pages()

    async def index(request: Request) -> Response:
        return _answer(request, pages.index, _REVALIDATE)

    async def asset(request: Request) -> Response:
        page = pages.assets.get(request.path_params["name"])
        if page is None or request.path_params["version"] != pages.version:
            raise HTTPException(
                _NOT_FOUND, "this is not a file of the running release's dashboard; load the page again"
            )
        return _answer(request, page, _FOR_EVER)

    return [Route("/", index), Route("/dashboard/{version}/{name}", asset)]


async def _switched_off(_: Request) -> Response:
    return Response(_SWITCHED_OFF, _NOT_FOUND, media_type="text/plain")


def _answer(request: Request, page: Page, caching: str) -> Response:
    """Return a file, compressed for who can read that, or nothing for who has it already."""
    headers = {**_HEADERS, "ETag": page.tag, "Cache-Control": caching}
    if page.tag in (tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    if not _reads_gzip(request.headers.get("Accept-Encoding", "")):
        return Response(page.body, media_type=page.media_type, headers=headers)
    return Response(page.packed, media_type=page.media_type, headers={**headers, "Content-Encoding": "gzip"})


def _reads_gzip(accepted: str) -> bool:
    """Return whether `Accept-Encoding` names gzip, and not in order to refuse it."""
    for choice in accepted.lower().split(","):
        coding, _, weight = choice.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" if weight else True
    return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
