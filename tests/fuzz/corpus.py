"""Inputs that guided fuzzing starts from: one good document or more for every reader of `guided.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from extender.control.watched import LEASE, PROVISIONING, WATCHED
from tests.fuzz.subject import submitted
from tests.objects import dra
from tests.objects.documents import load

_ROWS = (*WATCHED, LEASE, PROVISIONING)
_OF_DEVICES = {
    "ResourceSlice": dra.FULL_SLICE,
    "DeviceClass": dra.FULL_CLASS,
    "ResourceClaim": dra.FULL_CLAIM,
    "ResourceClaimTemplate": dra.FULL_TEMPLATE,
    "DeviceTaintRule": dra.FULL_RULE,
}
#: What any kind may begin with.
_BARE = {"metadata": {"name": "g", "namespace": "default", "uid": "u"}, "spec": {}, "status": {}}


def write(folder: Path, certificate: bytes) -> int:
    """Write the inputs into `folder`, each with the byte that names its reader, and return how many."""
    objects, protocol = load("objects/data/objects.json"), load("objects/data/protocol.json")
    known = {each["kind"]: each for each in submitted()} | objects | _OF_DEVICES
    documents: list[tuple[int, Any]] = [(number, _BARE) for number in range(len(_ROWS))]
    documents += [(number, known[row.kind]) for number, row in enumerate(_ROWS) if row.kind in known]
    after = len(_ROWS)
    documents += [
        (after + 3, protocol["filterNames"]),
        (after + 3, protocol["filterNodes"]),
        (after + 4, protocol["bind"]),
        (after + 5, protocol["preemptMeta"]),
        (after + 5, protocol["preemptPods"]),
    ]
    inputs = [bytes([kind]) + json.dumps(document).encode() for kind, document in documents]
    inputs.append(bytes([after + 6]) + certificate)
    for index, content in enumerate(inputs):
        (folder / f"{index:02}").write_bytes(content)
    return len(inputs)
