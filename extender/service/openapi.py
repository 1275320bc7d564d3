"""What the verbs take and answer, as OpenAPI: derived from the structs that read and write it."""

from __future__ import annotations

from typing import Any

import msgspec

from extender.wire import extender as wire

#: Verb -> what it does, what it is asked, what it answers.
_VERBS: dict[str, tuple[str, Any, Any]] = {
    "filter": ("Say which of the offered nodes a pod may go to.", wire.ExtenderArgs, wire.FilterResult),
    "prioritize": ("Score the offered nodes from 0 to 10.", wire.ExtenderArgs, list[wire.HostPriority]),
    "bind": ("Bind a pod, once the rest of its gang has arrived.", wire.BindingArgs, wire.BindingResult),
    "preempt": (
        "Say on which of the candidate nodes pods may be evicted.",
        wire.PreemptionArgs,
        wire.PreemptionResult,
    ),
}
#: Status -> when. Every one has a body in the verb's own form.
_STATUSES = {
    "200": "The answer; a failure that is not the request's form is in `Error`.",
    "400": "The body is not of the expected form; `Error` names the place.",
    "413": "The body exceeds a limit.",
}


def add_verbs(document: dict[str, Any]) -> None:
    """Add the paths of the verbs, and the schemas they need, to an OpenAPI document."""
    types = [kind for _, *kinds in _VERBS.values() for kind in kinds]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    document.setdefault("components", {}).setdefault("schemas", {}).update(components)
    pairs = zip(schemas[::2], schemas[1::2], strict=True)
    for (verb, (summary, *_)), (request, answer) in zip(_VERBS.items(), pairs, strict=True):
        content = {"application/json": {"schema": answer}}
        document["paths"][f"/v1/{verb}"] = {
            "post": {
                "summary": summary,
                "operationId": verb,
                "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
                "responses": {status: {"description": text, "content": content} for status, text in _STATUSES.items()},
            }
        }
