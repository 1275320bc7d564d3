"""What people ask about one gang: how it stands and why, which moves would make it fit, and what if it were submitted.

State is copied in one go, in well under a millisecond. What is made of it is made in a thread, so that the verbs do not
wait for people.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import HTTPException, Query, Request, Response
from msgspec.structs import replace

from extender.admission.defragment import Defragmentation
from extender.control.controller import Controller
from extender.control.health import DegradedError
from extender.explain.documents import DefragmentationDocument, Explanation, MoveRow, WhatIfDocument
from extender.explain.drawing.svg import render
from extender.explain.drawing.tree import Survey, draw
from extender.explain.explanation import GangFacts, explain_further, explanation, headline, remarks
from extender.explain.whatif import Newcomer, WhatIfAnswer, ask, complete, newcomers, study, whatif_document
from extender.objects.manifest import SubmissionError
from extender.objects.meta import DecodeError, Decoder, write_timestamp
from extender.objects.podgroup import GroupRef
from extender.objects.priority import Priorities
from extender.objects.submission import read_submission
from extender.service.endpoint import (
    Body,
    BodyBudget,
    BodyLimit,
    BodyLostError,
    BodyTooLargeError,
    CallSlots,
    TooManyCallsError,
)
from extender.service.routes import (
    BAD_REQUEST,
    NOT_FOUND,
    NOT_READ_YET,
    UNAVAILABLE,
    ApiRoute,
    fresh,
    fresh_json,
    require_ready,
)
from extender.settings import Settings

#: What a namespace may be called, and what a gang: the name of an object, or the value of a label.
#: Source: k8s.io/apimachinery/pkg/api/validate/content.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_GANG = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)

_FAILURES: Final = {
    BAD_REQUEST: "What cannot be the name of a namespace or gang; `detail` quotes it.",
    NOT_FOUND: "There is no such gang; `detail` says what to look at.",
    UNAVAILABLE: NOT_READ_YET,
}
#: A picture runs nothing and loads nothing, whatever its texts are.
_SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}
_SVG: Final = {"image/svg+xml": {"schema": {"type": "string"}}}

_Written = TypeVar("_Written")

_Suggestions = Annotated[
    bool,
    Query(description="Search for the smallest changes with which the gang would start; takes longer than all else."),
]
_Remarks = Annotated[bool, Query(description="Write beside the picture what `explain` remarks.")]


class GangRoutes:
    """Answer questions about one gang, and have others moved for it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        # Questions without suggestions share copies of the state, which one thread may read.
        self._one_by_one = ThreadPoolExecutor(1, thread_name_prefix="explanations")

    def reads(self) -> list[ApiRoute]:
        """Return the routes that change nothing."""
        gang = "/api/v1/gangs/{namespace}/{name}"
        return [
            ApiRoute(
                f"{gang}/explain",
                self.explain,
                "Say how a gang stands: why it waits, or what is predicted of where it is.",
                answers=Explanation,
                fails=_FAILURES,
            ),
            ApiRoute(
                f"{gang}/picture.svg",
                self.picture,
                "Draw the cluster with a gang on it.",
                answers=_SVG,
                fails=_FAILURES,
            ),
        ]

    def moves(self) -> list[ApiRoute]:
        """Return the routes about moves of other gangs."""
        path = "/api/v1/gangs/{namespace}/{name}/defrag"
        return [
            ApiRoute(
                path,
                self.plan_moves,
                "Say which moves of preemptible gangs would make a waiting gang fit.",
                answers=DefragmentationDocument,
                fails=_FAILURES,
            ),
            ApiRoute(
                path,
                self.make_moves,
                "Evict what has to move for a waiting gang to fit, within PodDisruptionBudgets.",
                answers=DefragmentationDocument,
                fails=_FAILURES,
                method="POST",
            ),
        ]

    async def explain(self, namespace: str, name: str, *, suggestions: _Suggestions = False) -> Response:
        """Answer with an Explanation."""
        ref = self._find(namespace, name)
        wider = await self._controller.forecaster.wider(ref) if suggestions else None
        ref = self._find(namespace, name)  # it may have gone meanwhile
        facts, document = await self._worked_out(ref, explanation, suggesting=suggestions)
        if wider is not None:
            document = replace(document, suggestions=(*(document.suggestions or ()), wider))
        holders = self._controller.inspection.complete(facts).account.holders
        # To write it takes as long as to hand it to a thread once more, and waits for nothing.
        return fresh_json(msgspec.json.encode(replace(document, holders=holders)))

    async def picture(self, namespace: str, name: str, *, remarks: _Remarks = True) -> Response:
        """Answer with a picture as SVG."""
        ref = self._find(namespace, name)
        survey = self._controller.inspection.survey(ref)
        _, drawn = await self._worked_out(ref, lambda facts: _draw(facts, survey, told=remarks), suggesting=False)
        return Response(drawn, media_type="image/svg+xml", headers=_SVG_HEADERS)

    async def plan_moves(self, namespace: str, name: str) -> Response:
        """Answer with a DefragmentationDocument."""
        return self._moves(namespace, name, apply=False)

    async def make_moves(self, namespace: str, name: str) -> Response:
        """Answer with a DefragmentationDocument whose moves have begun."""
        return self._moves(namespace, name, apply=True)

    def _moves(self, namespace: str, name: str, *, apply: bool) -> Response:
        ref = self._find(namespace, name)
        try:
            found = self._controller.defragment(ref, apply=apply)
        except DegradedError as error:
            raise HTTPException(UNAVAILABLE, str(error)) from error
        return fresh(_defragmentation(found))

    def _find(self, namespace: str, name: str) -> GroupRef:
        """Return the gang of that name; raise HTTPException if there is none, or not yet."""
        for what, text, pattern in (("namespace", namespace, _NAMESPACE), ("gang", name, _GANG)):
            if pattern.fullmatch(text) is None:
                raise HTTPException(BAD_REQUEST, f"{text[:100]!r} cannot be the name of a {what}")
        require_ready(self._controller)
        ref = self._controller.inspection.find(namespace, name)
        if ref is None:
            raise HTTPException(
                NOT_FOUND,
                f"no gang {namespace}/{name}: there is no PodGroup, no gang of pods and no pod for Muster of that name",
            )
        return ref

    async def _worked_out(
        self, ref: GroupRef, write: Callable[[GangFacts], _Written], *, suggesting: bool
    ) -> tuple[GangFacts, _Written]:
        """Return how a gang stands but for the names of holders, and what is written of that, beside the event loop.

        Raises KeyError if there is no such gang.
        """
        # The last reference frees what is the question's own: the thread holds it.
        box = [self._controller.inspection.collect(ref, suggesting=suggesting)]

        def work() -> tuple[GangFacts, _Written]:
            facts = explain_further(box.pop())
            return facts, write(facts)

        thread = None if suggesting else self._one_by_one
        return await asyncio.get_running_loop().run_in_executor(thread, work)


def _draw(facts: GangFacts, survey: Survey, *, told: bool) -> str:
    name = str(facts.view.ref)
    return render(draw(survey, name, f"{name}: {headline(facts)}", remarks(facts) if told else ()))


def _defragmentation(found: Defragmentation) -> DefragmentationDocument:
    moves = (MoveRow(move.name, move.pods, tuple(move.origins), tuple(move.targets)) for move in found.moves)
    return DefragmentationDocument(found.fits, tuple(moves), found.reason)


#: Gangs of one question. Each takes as long as an explanation, with up to 64 trials besides.
_MOST_GANGS: Final = 64
#: Questions that may wait while one is being worked out.
_MOST_WAITING: Final = 8

_TOO_LARGE, _TOO_MANY = 413, 429
_WHATIF_FAILURES: Final = {
    BAD_REQUEST: "Objects that cannot be evaluated; `detail` names object and field.",
    _TOO_LARGE: "The body exceeds the setting body_limit_bytes.",
    _TOO_MANY: "Other questions are being answered, one by one.",
    UNAVAILABLE: f"{NOT_READ_YET} Or this replica stands by; the one that leads has to be asked.",
}


class WhatIfQuestion(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The objects that would be submitted, as the API server would get them."""

    objects: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, description="Kubernetes objects as JSON.")]


_decode = Decoder(WhatIfQuestion, "the question")


class WhatIfRoutes:
    """Answer questions about objects that are not submitted, one by one."""

    def __init__(self, controller: Controller, settings: Settings) -> None:
        self._controller = controller
        self._limit = BodyLimit(settings.body_limit_bytes, "setting body_limit_bytes")
        self._budget = BodyBudget(settings.body_limit_bytes)
        self._slots = CallSlots(_MOST_WAITING, "fixed")
        self._one_by_one = asyncio.Lock()

    def routes(self) -> list[ApiRoute]:
        """Return the one route."""
        return [
            ApiRoute(
                "/api/v1/explain",
                self.explain,
                "Say what would become of objects if they were submitted now. Nothing is decided, and nothing kept.",
                takes=WhatIfQuestion,
                answers=WhatIfDocument,
                fails=_WHATIF_FAILURES,
                method="POST",
            )
        ]

    async def explain(self, request: Request) -> Response:
        """Answer a WhatIfQuestion with a WhatIfDocument."""
        require_ready(self._controller)
        if not self._controller.leading:
            raise HTTPException(UNAVAILABLE, "this replica stands by and decides nothing; ask the one that leads")
        try:
            with self._slots, Body(request.scope, request.receive, self._limit, self._budget) as body:
                content = await body.read()
                async with self._one_by_one:
                    return fresh_json(await self._answer(content))
        except (DecodeError, SubmissionError, BodyLostError) as error:
            raise HTTPException(BAD_REQUEST, str(error)) from error
        except BodyTooLargeError as error:
            raise HTTPException(_TOO_LARGE, str(error), {"connection": "close"}) from error
        except TooManyCallsError as error:
            raise HTTPException(_TOO_MANY, str(error)) from error

    async def _answer(self, content: bytes) -> bytes:
        """Return the document; only what has to be is done on the event loop."""
        controller, clock = self._controller, self._controller.clock
        priorities, now = controller.admission.priorities.known, clock.now()
        managed = controller.admission.model.workloads.namespaces
        known = priorities, write_timestamp(now), managed
        asked, passed = await asyncio.to_thread(_read, content, *known, clock.monotonic())
        answers = [await self._studied(each, now.timestamp()) for each in asked]
        return await asyncio.to_thread(lambda: msgspec.json.encode(whatif_document(answers, passed)))

    async def _studied(self, newcomer: Newcomer, now: float) -> WhatIfAnswer:
        """Answer for one gang that comes at `now` (epoch seconds)."""
        admission = self._controller.admission
        # The last reference frees the copy, which takes milliseconds: the thread holds it.
        question = [ask(admission, newcomer, now, self._controller.inspection.runtimes)]
        answer = await asyncio.to_thread(lambda: study(question.pop()))
        return complete(admission, answer, now)


def _read(
    content: bytes, priorities: Priorities, created: str, managed: Collection[str], now: float
) -> tuple[list[Newcomer], tuple[str, ...]]:
    """Read a question: gangs created at `created`, which is `now`, and the names of what makes none.

    Raises DecodeError or SubmissionError.
    """
    objects = _decode(content).objects
    submitted = read_submission(objects, priorities, created, managed)
    if len(submitted.gangs) > _MOST_GANGS:
        raise SubmissionError(f"{len(submitted.gangs)} gangs are more than one question may be about, {_MOST_GANGS}")
    return newcomers(submitted.gangs, now), submitted.passed_over
