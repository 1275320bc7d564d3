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
    from extender.kube.api import decode_object_list, decode_status
    from extender.kube.watch import decode_watch_event
    from extender.objects.meta import DecodeError, Decoder
    from extender.objects.node import decode_node, read_node
    from extender.objects.pod import read_pod
    from extender.objects.podspec import decode_pod
    from extender.objects.priority import decode_priority_class
    from extender.objects.sources.coscheduling import decode_coscheduling_pod_group, read_coscheduling
    from extender.objects.sources.native import decode_native_pod_group, read_native
    from extender.service.certificates import CertificateError, expiries
    from extender.service.verbs import decode_binding_args, decode_extender_args, decode_preemption_args

#: What comes from outside, each with what reads it further.
_READERS: tuple[tuple[Decoder[Any], Callable[[Any], object]], ...] = (
    (decode_pod, read_pod),
    (decode_node, read_node),
    (decode_coscheduling_pod_group, read_coscheduling),
    (decode_native_pod_group, read_native),
    (decode_priority_class, repr),
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
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
