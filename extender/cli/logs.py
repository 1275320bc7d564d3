"""Logs: one JSON object a line for machines, colours and columns for a person at a terminal."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Any

import orjson
import structlog

_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """What is worth a line. Debug has one per extender call and Binding."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logs(level: LogLevel, form: LogFormat) -> None:
    """Send the logs of Muster, and of the libraries below it, to standard error in one form."""
    minimum = logging.getLevelNamesMapping()[level.upper()]
    console = form is LogFormat.CONSOLE or (form is LogFormat.AUTO and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A traceback says where, never with which values: among the local variables are request bodies, and in those the
    # environment of containers.
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(_dumps)
    )
    failures: list[structlog.typing.Processor] = [] if console else [_TRACEBACKS]
    structlog.configure(
        processors=[*shared, *failures, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # A logger that is kept is out of reach of a later configuration, such as a test's; making one costs 2 us.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *failures, renderer],
        )
    )
    logging.basicConfig(level=max(minimum, logging.WARNING), handlers=[handler], force=True)


def _dumps(event: Any, **_: Any) -> str:  # noqa: ANN401 - structlog hands over whatever was logged
    return orjson.dumps(event, default=repr).decode()
