"""Inputs that guided fuzzing starts from: one good document for every reader of `guided.py`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.objects.documents import load


def write(folder: Path, certificate: bytes) -> int:
    """Write the inputs into `folder`, each with the byte that names its reader, and return how many."""
    objects, protocol = load("objects/data/objects.json"), load("objects/data/protocol.json")
    documents = [
        (0, objects["Pod"]),
        (1, objects["Node"]),
        (2, {"metadata": {"name": "g", "uid": "u"}, "spec": {"minMember": 4, "minResources": {"cpu": "4"}}}),
        (3, objects["NativePodGroup"]),
        (4, objects["PriorityClass"]),
        (8, protocol["filterNames"]),
        (8, protocol["filterNodes"]),
        (9, protocol["bind"]),
        (10, protocol["preemptMeta"]),
        (10, protocol["preemptPods"]),
    ]
    inputs = [bytes([kind]) + json.dumps(document).encode() for kind, document in documents]
    inputs.append(bytes([11]) + certificate)
    for index, content in enumerate(inputs):
        (folder / f"{index:02}").write_bytes(content)
    return len(inputs)
