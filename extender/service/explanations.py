"""The form of an explanation, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from extender.admission.explaining.waterfall import Cause
from extender.control.explanation import MemberState
from extender.control.views import GangPhase
from extender.domain.membership import GroupApi
from extender.domain.reason import Reason

Schema = dict[str, Any]

_INTEGER: Final[Schema] = {"type": "integer"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_NUMBER: Final[Schema] = {"type": "number"}
_STRING: Final[Schema] = {"type": "string"}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}


def _object(**fields: Schema) -> Schema:
    """Return the schema of an object that has all of these fields and no others."""
    return {"type": "object", "required": list(fields), "properties": fields, "additionalProperties": False}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _enum(values: type[Any]) -> Schema:
    return {"type": "string", "enum": [value.value for value in values]}


_AMOUNTS: Final = _map(_STRING)
_PLACEMENT: Final = _object(
    busBandwidthGBps=_or_null(_NUMBER),
    level=_STRING,
    domain=_STRING,
    fragmentationCost=_or_null(_NUMBER),
    gpusPerNode=_map(_INTEGER),
)
_BETTER: Final = _object(busBandwidthGBps=_NUMBER, level=_STRING, domain=_STRING, fits=_INTEGER, needed=_INTEGER)
_STEP: Final = _object(cause=_enum(Cause), nodes=_COUNT, left=_COUNT, detail=_STRING)
_WATERFALL: Final = _object(pods=_COUNT, request=_AMOUNTS, nodes=_COUNT, steps=_list(_STEP), usable=_COUNT, fits=_COUNT)
_MISS: Final = _object(level=_STRING, domain=_STRING, fits=_COUNT, needed=_COUNT, lacks=_AMOUNTS)
_HOLDER: Final = _object(
    gang=_STRING,
    gpus=_COUNT,
    nodes=_COUNT,
    priority=_INTEGER,
    queue=_or_null(_STRING),
    endsAt=_or_null(_TIME),
    overdue=_BOOLEAN,
)
_SUGGESTION: Final[Schema] = {
    "type": "object",
    "required": ["change", "from", "to", "message"],
    "properties": {"change": _STRING, "from": {}, "to": {}, "message": _STRING},
    "additionalProperties": False,
}
_POD: Final = _object(
    name=_STRING,
    role=_or_null(_STRING),
    state=_enum(MemberState),
    node=_or_null(_STRING),
    gpus=_or_null(_list(_INTEGER)),
    zones=_or_null(_list(_INTEGER)),
    observed=_BOOLEAN,
)

#: What `explanation_json` returns.
EXPLANATION: Final = _object(
    namespace=_STRING,
    name=_STRING,
    api=_enum(GroupApi),
    managed=_BOOLEAN,
    hypothetical=_BOOLEAN,
    phase=_enum(GangPhase),
    minMember=_INTEGER,
    reason=_or_null(_object(code=_enum(Reason), message=_STRING, numbers=_map(_INTEGER))),
    placement=_or_null(_PLACEMENT),
    headline=_STRING,
    nextBetter=_or_null(_BETTER),
    expectedStart=_or_null(_object(at=_TIME, waitsFor=_or_null(_STRING), overdue=_BOOLEAN)),
    queue=_or_null(_object(name=_or_null(_STRING), position=_or_null(_COUNT), of=_COUNT, ahead=_list(_STRING))),
    waterfall=_list(_WATERFALL),
    nearestMiss=_or_null(_MISS),
    holders=_list(_HOLDER),
    choice=_or_null(_object(considered=_COUNT, lines=_list(_STRING))),
    suggestions=_or_null(_list(_SUGGESTION)),
    remarks=_list(_STRING),
    levels=_object(source=_STRING, names=_list(_STRING)),
    pods=_list(_POD),
)
