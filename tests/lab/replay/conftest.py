"""A story that has been recorded, as the journal's own tests have it."""

from __future__ import annotations

from tests.journal.conftest import snapshot, story

__all__ = ["snapshot", "story"]
