"""Logs: one JSON object a line for machines, colours and columns for a person at a terminal."""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, TextIO

import orjson
import structlog

from extender.cli.logwriter import LogWriter
from extender.cli.printing import one_line, steady

#: Seconds that the end of the process waits for lines that are not written yet.
_LAST_SECONDS: Final = 1.0

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


class _Guarded:
    """Run structlog's processors; what one of them cannot do drops the line, and is not the caller's affair."""

    def __init__(self, processors: Sequence[structlog.typing.Processor], writer: LogWriter) -> None:
        self._processors = processors
        self._writer = writer

    def __call__(self, logger: Any, name: str, event: Any) -> Any:  # noqa: ANN401 - as structlog has it
        try:
            for processor in self._processors:
                event = processor(logger, name, event)
        except structlog.DropEvent:
            raise
        except Exception as error:
            self._writer.unprintable()
            raise structlog.DropEvent from error
        return event


class _Lines:
    """Where structlog's rendered lines go."""

    def __init__(self, writer: LogWriter) -> None:
        self._put = writer.put

    def msg(self, message: str) -> None:
        """Have a line written."""
        self._put(message)

    log = debug = info = warning = error = critical = exception = msg


class _Handler(logging.Handler):
    """Where the lines of libraries go."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written."""
        try:
            self._writer.put(self.format(record))
        except Exception:  # noqa: BLE001 - whatever it is, it is not the affair of who logs
            self._writer.unprintable()


def fill_standard_streams() -> None:
    """Open what is closed of standard input, output and error as /dev/null.

    Otherwise the next file or connection gets its number, and what a library writes to standard error goes there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def configure_logs(level: LogLevel, form: LogFormat) -> LogWriter:
    """Send the logs of Muster, and of the libraries below it, to standard error in one form; return what writes them.

    Logging never waits and never raises: lines are written by a thread, and dropped where they cannot be.
    """
    minimum = logging.getLevelNamesMapping()[level.upper()]
    descriptor = _standard_error()
    writer = LogWriter(None if descriptor is None else partial(os.write, descriptor))
    console = form is LogFormat.CONSOLE or (form is LogFormat.AUTO and descriptor is not None and os.isatty(descriptor))
    plainly: list[structlog.typing.Processor] = [_without_signs] if console else []
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A traceback says where, never with which values: among the local variables are request bodies, and in those the
    # environment of containers.
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=_traceback)
        if console
        else structlog.processors.JSONRenderer(_dumps)
    )
    failures: list[structlog.typing.Processor] = [] if console else [_TRACEBACKS]
    structlog.configure(
        processors=[_Guarded([*shared, *failures, *plainly, renderer], writer)],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=lambda *_: _Lines(writer),
        # A logger that is kept is out of reach of a later configuration, such as a test's; making one costs 2 us.
        cache_logger_on_first_use=False,
    )
    handler = _Handler(writer)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *failures, *plainly, renderer],
        )
    )
    logging.basicConfig(level=max(minimum, logging.WARNING), handlers=[handler], force=True)
    atexit.register(writer.flush, _LAST_SECONDS)
    return writer


def _standard_error() -> int | None:
    """Return the descriptor of standard error, None where there is none: closed, or replaced by something else."""
    try:
        return None if sys.stderr is None else sys.stderr.fileno()
    except (OSError, ValueError):
        return None


def _without_signs(_logger: Any, _name: str, event: Any) -> Any:  # noqa: ANN401 - as structlog has it
    """Return what is logged with texts in one line each, which steer no terminal."""
    return {key: one_line(value) if isinstance(value, str) else value for key, value in event.items()}


def _traceback(file: TextIO, failure: structlog.typing.ExcInfo) -> None:
    """Write a traceback without what would steer a terminal."""
    written = io.StringIO()
    structlog.dev.plain_traceback(written, failure)
    file.write(steady(written.getvalue()))


def _dumps(event: Any, **_: Any) -> str:  # noqa: ANN401 - structlog hands over whatever was logged
    try:
        line = orjson.dumps(event, default=repr).decode()
    except TypeError:  # integers beyond 64 bits, half of a surrogate pair
        return json.dumps(event, default=repr)
    return line if line.isprintable() else json.dumps(orjson.loads(line))  # what would steer a terminal is escaped
