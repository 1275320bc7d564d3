"""The numeric fields of all documents, and those that are looked at elsewhere.

A field that is new is recomputed, or stands in `ELSEWHERE` with the test that looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import inspect

from extender.explain.documents import Explanation, QueueRow
from extender.service.board.documents import (
    CapacityDocument,
    GangRow,
    NodesDocument,
    StatusDocument,
)

#: Numeric fields that are not recomputed here, each with why, and what looks at it instead.
ELSEWHERE: Final = {
    "status.verbs[].calls": "calls are no objects: tests/control/test_recent.py",
    "status.verbs[].p50Ms": "calls are no objects: tests/control/test_recent.py",
    "status.verbs[].p99Ms": "calls are no objects: tests/control/test_recent.py",
    "status.pass.calls": "passes are no objects: tests/control/test_recent.py",
    "status.pass.p50Ms": "passes are no objects: tests/control/test_recent.py",
    "status.pass.p99Ms": "passes are no objects: tests/control/test_recent.py",
    "status.hiddenGangs": "the caller here sees all: tests/service/test_access.py",
    "status.recording.inputs": "the journal's own count: tests/journal",
    "status.recording.bytes": "the journal's own count: tests/journal",
    "gangs[].reason.numbers{}": "of members that exist or are gated here, else what the judge found: tests/admission",
    "gangs[].busBandwidthGBps": "a model's prediction, with an oracle of its own: tests/hardware, tests/placement",
    "queues[].share": "a weighted quotient of what is recomputed: tests/queues",
    "explain.reason.numbers{}": "as the gang's row has it",
    "explain.placement.busBandwidthGBps": "a model's prediction: tests/hardware, tests/placement",
    "explain.placement.fragmentationCost": "a model's prediction: tests/placement",
    "explain.nextBetter.busBandwidthGBps": "a model's prediction: tests/placement",
    "explain.nextBetter.fits": "what the placement's own search found: tests/placement",
    "explain.nextBetter.needed": "what the placement's own search found: tests/placement",
    "explain.choice.considered": "how many nodes would take a member: tests/explain/test_choice.py",
    "explain.choice.weighed.cost.work": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.cost.lost": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.cost.counted": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.gpus[]": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.work": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.lost": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.counted": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.speed": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.gpus": "GPUs as of the choice: tests/placement",
    "explain.suggestions[].from": "none are searched for here: tests/explain/test_suggestions.py",
    "explain.suggestions[].to": "none are searched for here: tests/explain/test_suggestions.py",
    "explain.holders[].priority": "as the gang's row has it: tests/explain/test_holders.py",
    "explain.pods[].gpus[]": "which GPUs, not how many: tests/cluster/test_occupancy.py",
    "explain.pods[].zones[]": "which zones: tests/cluster/test_occupancy.py",
}

#: Documents, by what their fields are called here.
DOCUMENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "status": StatusDocument,
    "gangs[]": GangRow,
    "queues[]": QueueRow,
    "nodes": NodesDocument,
    "capacity": CapacityDocument,
    "explain": Explanation,
}


def numeric(where: str, kind: inspect.Type, around: frozenset[type] = frozenset()) -> Iterator[str]:
    """Yield the fields of a document that hold numbers; of structs within others of their kind, once."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) | inspect.DataclassType(cls=cls, fields=fields):
            for field in fields if cls not in around else ():
                yield from numeric(f"{where}.{field.encode_name}", field.type, around | {cls})
        case inspect.UnionType(types=types):
            for each in types:
                yield from numeric(where, each, around)
        case inspect.CollectionType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from numeric(f"{where}[]", item, around)
        case inspect.DictType(value_type=value):
            yield from numeric(f"{where}{{}}", value, around)
        case inspect.Metadata(type=inner):
            yield from numeric(where, inner, around)
        case inspect.IntType() | inspect.FloatType():
            yield where
        case _:
            return


def fields_of(name: str, document: type[msgspec.Struct]) -> set[str]:
    """Return the numeric fields of a document."""
    return set(numeric(name, inspect.type_info(document)))
