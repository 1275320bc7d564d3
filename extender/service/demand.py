"""What autoscalers ask: which pods wait for capacity, together and with what constraints."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Response

from extender.admission.demand import PodSet, UnmetDemand
from extender.control.controller import Controller
from extender.domain.quantity import format_amount
from extender.domain.requests import PODS
from extender.domain.selectors import Requirement, Selector
from extender.domain.taints import Toleration
from extender.service.readiness import ERROR_SCHEMA, UNAVAILABLE
from extender.wire.codec import encode

_SCHEMA = {"type": "object", "required": ["gangs"], "properties": {"gangs": {"type": "array"}}}


def add_demand(app: FastAPI, controller: Controller) -> None:
    """Add the read about unmet demand to an application."""

    @app.get(
        "/api/v1/demand",
        summary="List what waiting gangs lack that more nodes would give them.",
        response_class=Response,
        responses={
            200: {"content": {"application/json": {"schema": _SCHEMA}}},
            UNAVAILABLE: {
                "description": "Nobody is judged here; `detail` says why.",
                "content": {"application/json": {"schema": ERROR_SCHEMA}},
            },
        },
    )
    async def demand() -> Response:
        # From a replica that judges nobody an empty list would read as "nobody lacks anything".
        if not controller.leading:
            reasons = "; ".join(controller.unready_because()) or "another replica leads"
            raise HTTPException(UNAVAILABLE, f"no gang is judged here: {reasons}")
        rows = controller.inspection.demand()
        return Response(encode({"gangs": [demand_json(row) for row in rows]}), media_type="application/json")


def demand_json(row: UnmetDemand) -> dict[str, object]:
    """Return one gang's demand, its pod sets in the words of a pod's spec."""
    return {
        "namespace": row.gang.namespace,
        "name": row.gang.name,
        "api": row.gang.api.value,
        "uid": row.uid,
        "reason": row.reason.value,
        "since": row.since,
        "pods": row.pods,
        "level": row.level or None,
        "podSets": [pod_set_json(pod_set) for pod_set in row.pod_sets],
    }


def pod_set_json(pod_set: PodSet) -> dict[str, object]:
    """Return pods of one shape: how many, what each asks for, and which nodes it could go to."""
    shape = pod_set.shape
    requests = {name: format_amount(name, value) for name, value in shape.requests if name != PODS}
    return {
        "count": pod_set.count,
        "requests": requests,
        "nodeSelector": dict(shape.selector.equals),
        "nodeSelectorTerms": _terms_json(shape.selector),
        "tolerations": [_toleration_json(toleration) for toleration in shape.tolerations],
    }


def _terms_json(selector: Selector) -> list[dict[str, object]] | None:
    """Return the terms of the required node affinity, None without one: an empty list admits no node."""
    if selector.terms is None:
        return None
    return [
        {
            "matchExpressions": [_requirement_json(requirement) for requirement in term.labels],
            "matchFields": [_requirement_json(requirement) for requirement in term.fields],
        }
        for term in selector.terms
    ]


def _requirement_json(requirement: Requirement) -> dict[str, object]:
    return {"key": requirement.key, "operator": requirement.operator, "values": list(requirement.values)}


def _toleration_json(toleration: Toleration) -> dict[str, str]:
    fields = ("key", toleration.key), ("operator", toleration.operator), ("value", toleration.value)
    return {name: text for name, text in (*fields, ("effect", toleration.effect)) if text}
