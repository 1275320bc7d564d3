"""Coverage-guided fuzzing of the codecs and what reads their output: `python -m tests.fuzz.guided -runs=100000`.

The arguments are libFuzzer's. A finding is any exception but the orderly refusals, and leaves its input in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

try:
    import atheris  # type: ignore[import-untyped]  # it has no stubs
except ImportError:
    sys.exit("atheris is needed, which has wheels for Linux and Python 3.11 to 3.13. Install it with: make setup")

with atheris.instrument_imports(include=["extender"]):
    from extender.domain.node import read_node
    from extender.domain.pod import read_pod
    from extender.domain.podgroup import read_coscheduling, read_native
    from extender.service.certificates import CertificateError, expiries
    from extender.wire import codec

#: What comes from outside, each with what reads it further.
_READERS: tuple[tuple[codec.Decoder[Any], Callable[[Any], object]], ...] = (
    (codec.decode_pod, read_pod),
    (codec.decode_node, read_node),
    (codec.decode_coscheduling_pod_group, read_coscheduling),
    (codec.decode_native_pod_group, read_native),
    (codec.decode_priority_class, repr),
    (codec.decode_object_list, repr),
    (codec.decode_watch_event, repr),
    (codec.decode_status, repr),
    (codec.decode_extender_args, lambda args: args.pod and read_pod(args.pod)),
    (codec.decode_binding_args, repr),
    (codec.decode_preemption_args, lambda args: args.pod and read_pod(args.pod)),
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
    except (codec.DecodeError, CertificateError):
        return


def main() -> None:
    """Fuzz until libFuzzer is told to stop."""
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
