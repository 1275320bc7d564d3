"""Saying that what people ask cannot be answered yet."""

from __future__ import annotations

from typing import Final

from fastapi import HTTPException

from extender.control.controller import Controller

UNAVAILABLE: Final = 503
ERROR_SCHEMA: Final = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
NOT_READ_YET: Final = "Not everything has been read from the API server yet; `detail` says what is missing."


def require_ready(controller: Controller) -> None:
    """Raise HTTPException as long as not everything has been read."""
    if not controller.ready:
        why = "; ".join(controller.unready_because() or ["starting"])
        raise HTTPException(UNAVAILABLE, f"not ready: {why}")
