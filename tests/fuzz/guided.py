"""Coverage-guided fuzzing of the codecs and what reads their output: `python -m tests.fuzz.guided -runs=100000`.

The arguments are libFuzzer's. A finding is any exception but the orderly refusals, and leaves its input in a file.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import structlog

try:
    import atheris  # type: ignore[import-untyped]  # it has no stubs
except ImportError:
    sys.exit("atheris is needed, which has wheels for Linux and Python 3.11 to 3.13. Install it with: make setup")

with atheris.instrument_imports(include=["extender"]):
    from extender.control.watched import LEASE, PROVISIONING, WATCHED, Known, Watched
    from extender.kube.api import decode_object_list, decode_status
    from extender.kube.watch import decode_watch_event
    from extender.objects.meta import DecodeError
    from extender.objects.pod import read_pod
    from extender.service.certificates import CertificateError, expiries
    from extender.service.verbs import decode_binding_args, decode_extender_args, decode_preemption_args


def _row(row: Watched[Any]) -> Callable[[Any], object]:
    """Return what reads an object of a watched kind further, after whatever others said."""
    return lambda item: [*row.seen(item, Known())]


_ROWS = (*WATCHED, LEASE, PROVISIONING)
#: What comes from outside, each with what reads it further: first the objects of every watched kind.
_READERS: tuple[tuple[Callable[[bytes], Any], Callable[[Any], object]], ...] = (
    *((row.decode, _row(row)) for row in _ROWS),
    (decode_object_list, repr),
    (decode_watch_event, repr),
    (decode_status, repr),
    (decode_extender_args, lambda args: args.pod and read_pod(args.pod)),
    (decode_binding_args, repr),
    (decode_preemption_args, lambda args: args.pod and read_pod(args.pod)),
)


def read(data: bytes) -> None:
    """Read `data` as one of the things that come from outside; its first byte says as which."""
    if not data:
        return
    kind, body = data[0] % (len(_READERS) + 1), data[1:]
    try:
        if kind == len(_READERS):
            expiries(body)
        else:
            decode, further = _READERS[kind]
            further(decode(body))
    except (DecodeError, CertificateError):
        return


def main() -> None:
    """Fuzz until libFuzzer is told to stop."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
