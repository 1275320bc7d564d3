"""The reference of reasons: every word that a waiting gang can say, with its sentence."""

from __future__ import annotations

from docsite.markdown import anchor, cell, code, page, table
from extender.objects.reason import Reason, Wait

_INTRO = """
Why a gang waits, as one word: condition, Event, metric label, `muster explain` and the API say the same. What stands in
braces is filled in. What each means, how to see more and what to do about it is on the page
[why a gang waits](../reasons.md).
"""


def sentence(reason: Reason) -> str:
    """Return the message of a reason with `{name}` for each number and word that it is told with."""
    names: dict[str, str] = {}
    while True:
        try:
            return Wait(reason, names=names).message
        except KeyError as missing:
            name = str(missing.args[0])
            names[name] = f"{{{name}}}"


def render() -> str:
    """Return the page."""
    rows = [(f"[{code(reason)}](../reasons.md#{anchor(reason)})", cell(sentence(reason))) for reason in Reason]
    return page("Reasons", _INTRO, table(("reason", "message"), rows))
