"""Which ResourceClaims a pod needs: those that it names, those made for it, and that for its extended resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import intern

from extender.objects.podspec import (
    Container,
    ExtendedClaimStatusObject,
    PodClaimStatusObject,
    PodSpec,
    PodStatusFields,
)
from extender.objects.reason import Problem


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod needs, by the name that it has in the pod.

    `claim` is the name of the ResourceClaim, "" for one that is still to be made from `template`. `needless` says that
    none is made for this pod. A claim with a template must have been made for the pod, or for its PodGroup.
    """

    name: str
    claim: str = ""
    template: str = ""
    needless: bool = False


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """A claim that a container uses, by its name in the pod: one request of it, all with ""."""

    container: str
    claim: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class ExtendedRequest:
    """Which request of the claim for extended resources stands for which resource of a container."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class PodClaims:
    """All claims of a pod.

    `extended` is the name of the claim that kube-scheduler made for its extended resources, "" for none, and `mappings`
    say which resources it is for.
    """

    claims: tuple[PodClaim, ...] = ()
    containers: tuple[ContainerClaim, ...] = ()
    extended: str = ""
    mappings: tuple[ExtendedRequest, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the ResourceClaims that exist for it, that for extended resources last."""
        named = tuple(each.claim for each in self.claims if each.claim)
        return (*named, self.extended) if self.extended else named

    @property
    def awaited(self) -> tuple[PodClaim, ...]:
        """Return the claims that are still to be made."""
        return tuple(each for each in self.claims if not each.claim and not each.needless)


NO_CLAIMS = PodClaims()


def read_pod_claims(spec: PodSpec) -> tuple[PodClaims, Problem | None]:
    """Return what a pod's spec says of claims, and what cannot be used of it."""
    if not spec.resource_claims:
        return NO_CLAIMS, None
    claims = []
    for index, each in enumerate(spec.resource_claims):
        field = f"spec.resourceClaims[{index}]"
        if not each.name:
            return NO_CLAIMS, Problem(f"{field}.name", "is missing")
        if not (each.resource_claim_name or each.resource_claim_template_name):
            return NO_CLAIMS, Problem(field, "has neither resourceClaimName nor resourceClaimTemplateName")
        template = "" if each.resource_claim_name else each.resource_claim_template_name or ""
        claims.append(PodClaim(intern(each.name), intern(each.resource_claim_name or ""), intern(template)))
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return PodClaims(tuple(claims), tuple(use for each in containers for use in _uses(each))), None


def _uses(container: Container) -> list[ContainerClaim]:
    claims = container.resources.claims if container.resources is not None else None
    return [ContainerClaim(container.name or "", each.name or "", each.request or "") for each in claims or ()]


def resolve(claims: PodClaims, status: PodStatusFields) -> PodClaims:
    """Return the claims with the names of those that were made for the pod, as its status has them."""
    made, extended = status.resource_claim_statuses, status.extended_resource_claim_status
    if made and claims.claims:
        claims = replace(claims, claims=tuple(_resolved(each, made) for each in claims.claims))
    if extended is not None and extended.resource_claim_name:
        claims = replace(claims, extended=extended.resource_claim_name, mappings=_read_mappings(extended))
    return claims


def _resolved(claim: PodClaim, made: Sequence[PodClaimStatusObject]) -> PodClaim:
    """Return the claim with its name. Source: dynamic-resource-allocation/resourceclaim.Name."""
    if not claim.template:
        return claim
    for each in made:
        if each.name == claim.name:
            return replace(claim, claim=each.resource_claim_name or "", needless=each.resource_claim_name is None)
    return claim


def _read_mappings(status: ExtendedClaimStatusObject) -> tuple[ExtendedRequest, ...]:
    return tuple(
        ExtendedRequest(each.container_name or "", each.resource_name or "", each.request_name or "")
        for each in status.request_mappings or ()
    )
