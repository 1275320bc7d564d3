"""Whether the API server still lets Muster do what no gang starts without: watches that are open would never say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import structlog
from msgspec import Struct

from extender.control.ports import ApiError
from extender.control.watched import LEASE, WATCHED
from extender.kube.api import UNREADABLE, ApiServer, JsonObject, Sleep
from extender.objects.meta import DecodeError, Decoder

_UNAUTHORIZED: Final = 401
#: How often the rights are looked at (seconds): one request, answered from the API server's memory.
LOOK_SECONDS: Final = 5.0
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"

CREDENTIALS_REFUSED: Final = (
    "the API server refuses Muster's credentials (401): its token or certificate has expired or been revoked"
)

log = structlog.get_logger("muster.rights")


class Rule(Struct, gc=False, frozen=True, rename="camel"):
    """What one rule of a role grants. `*` stands for all; no names are all names."""

    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class UserInfo(Struct, frozen=True):
    """A user as the API server knows it. Source: k8s.io/api/authentication/v1 UserInfo."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None

    def subject(self) -> JsonObject:
        """Return the fields that name it in a SubjectAccessReview."""
        fields: dict[str, Any] = {"user": self.username, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in fields.items() if value}


class ReviewStatus(Struct, gc=False, frozen=True, rename="camel"):
    """What is granted, by rules or one access, or whom a token is of."""

    resource_rules: list[Rule] | None = None
    allowed: bool = False
    authenticated: bool = False
    user: UserInfo | None = None


class Review(Struct, gc=False, frozen=True):
    """A review of rules, an access or a token, as answered."""

    status: ReviewStatus | None = None


decode_review = Decoder(Review)


@dataclass(frozen=True, slots=True)
class Access:
    """One thing that Muster does. `resource` may have a subresource (`pods/binding`); no namespace is all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def granted_by(self, rule: Rule) -> bool:
        """Tell whether a rule of the namespace that was asked about grants it."""
        pairs = ((self.verb, rule.verbs), (self.group, rule.api_groups), (self.resource, rule.resources))
        named = not rule.resource_names or self.name in rule.resource_names
        return named and all(not {wanted, "*"}.isdisjoint(granted or ()) for wanted, granted in pairs)

    def review(self) -> JsonObject:
        """Return the question whether it is granted. Source: k8s.io/api/authorization/v1 ResourceAttributes."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        attributes |= {"namespace": self.namespace, "name": self.name}
        return {"spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}}}


def needed(lease: str | None = None) -> tuple[Access, ...]:
    """Return what no gang starts without: to watch what is vital and `lease` (NAMESPACE/NAME), to nominate, to bind."""
    found = []
    for row in WATCHED:
        if row.vital:
            resource, _, group = row.name.partition(".")
            found += [Access(verb, group, resource) for verb in ("list", "watch")]
    if lease is not None:
        resource, _, group = LEASE.name.partition(".")
        namespace, _, name = lease.partition("/")
        found += [Access(verb, group, resource, namespace, name) for verb in ("list", "watch")]
    return (*found, Access("patch", "", "pods/status"), Access("create", "", "pods/binding"))


async def check_rights(
    api: ApiServer, accesses: Sequence[Access], tell: Callable[[str], None], *, sleep: Sleep = asyncio.sleep
) -> NoReturn:
    """Tell every few seconds what the API server refuses of `accesses`, for people; "" for nothing.

    What cannot be found out is no refusal: an API server that does not answer is noticed by the watches.
    """
    told = ""
    while True:
        found = await _refused(api, accesses)
        if found is not None:
            tell(found)
            if found != told:
                (log.error if found else log.info)("rights changed", missing=found)
            told = found
        await sleep(LOOK_SECONDS)


async def _refused(api: ApiServer, accesses: Sequence[Access]) -> str | None:
    """Return what is refused, in words, None where that cannot be found out.

    Rules need not be all that grants: what they do not is asked about one by one.
    """
    namespace = next((each.namespace for each in accesses if each.namespace), "default")
    try:
        status = await _ask(api, "selfsubjectrulesreviews", {"spec": {"namespace": namespace}})
        rules = status.resource_rules or []
        doubtful = [each for each in accesses if not any(map(each.granted_by, rules))]
        asked = [(each, await _ask(api, "selfsubjectaccessreviews", each.review())) for each in doubtful]
    except ApiError as error:
        return CREDENTIALS_REFUSED if error.status == _UNAUTHORIZED else None
    missing = [each for each, answer in asked if not answer.allowed]
    return f"rights are missing (403): {_listed(missing)}; Muster's ClusterRole must grant them" if missing else ""


async def _ask(api: ApiServer, resource: str, body: JsonObject) -> ReviewStatus:
    try:
        return decode_review(await api.post(f"{_REVIEWS}/{resource}", body)).status or ReviewStatus()
    except DecodeError as error:
        raise ApiError(0, UNREADABLE, str(error)) from error


def _listed(accesses: Iterable[Access]) -> str:
    """Render as `list and watch pods; create pods/binding`."""
    verbs: dict[str, list[str]] = {}
    for each in accesses:
        verbs.setdefault(f"{each.resource}.{each.group}".rstrip("."), []).append(each.verb)
    resources: dict[str, list[str]] = {}
    for resource, done in verbs.items():
        resources.setdefault(" and ".join(done), []).append(resource)
    return "; ".join(f"{done} {', '.join(names)}" for done, names in resources.items())
