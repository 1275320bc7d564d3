"""Why a gang waits: one enum for logs, metrics, events, conditions and explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a gang waits. The value is the metric label, the condition reason and the anchor in the docs."""

    POD_GROUP_MISSING = "PodGroupMissing"
    INVALID_POD_GROUP = "InvalidPodGroup"
    INVALID_MEMBER = "InvalidMember"
    MIXED_PRIORITIES = "MixedPriorities"
    MIXED_SCHEDULERS = "MixedSchedulers"
    HELD = "Held"
    ROLE_MEMBERS_MISSING = "RoleMembersMissing"
    MEMBERS_MISSING = "MembersMissing"
    ROLE_MEMBERS_GATED = "RoleMembersGated"
    MEMBERS_GATED = "MembersGated"
    UNKNOWN_QUEUE = "UnknownQueue"
    INVALID_QUEUE = "InvalidQueue"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    QUEUE_STOPPED = "QueueStopped"
    EXCEEDS_QUOTA = "ExceedsQuota"
    QUOTA_EXCEEDED = "QuotaExceeded"
    TOO_MANY_RUNNING = "TooManyRunningGangs"
    RUNNING_LIMIT = "RunningLimitReached"
    BEHIND_IN_QUEUE = "BehindInQueue"
    MIN_RESOURCES_UNMET = "MinResourcesUnmet"
    NO_NODE_MATCHES = "NoNodeMatches"
    EXCEEDS_CLUSTER = "ExceedsCluster"
    EXCEEDS_DOMAIN = "ExceedsTopologyDomain"
    NEVER_ALIGNED = "NumaAlignmentImpossible"
    UNKNOWN_LEVEL = "UnknownTopologyLevel"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    DOMAIN_FULL = "TopologyDomainFull"
    ZONES_FULL = "NumaZonesFull"
    SEARCH_GAVE_UP = "SearchGaveUp"
    AWAITING_NODES = "AwaitingNodes"
    BEHIND_HEAD = "BehindHead"
    KEPT_FOR_REPAIRS = "KeptForRepairs"
    PREEMPTING = "Preempting"
    BEING_EVICTED = "BeingEvicted"
    NODES_LOST = "NodesLost"
    REPAIRING = "Repairing"
    BACKING_OFF = "BackingOff"
    REFUSED_BY_SCHEDULER = "RefusedByScheduler"
    BINDING_REFUSED = "BindingRefused"
    REJECTED_BY_KUBELET = "RejectedByKubelet"
    MAX_MEMBER_REACHED = "MaxMemberReached"
    AWAITING_MEMBERS = "AwaitingMembers"
    WRITES_BACKLOGGED = "WritesBacklogged"
    CACHE_NOT_SYNCED = "CacheNotSynced"
    CACHE_STALE = "CacheStale"
    NOT_LEADING = "NotLeading"


#: How each reason reads. Short, and without numbers that change from call to call, because kube-scheduler aggregates
#: identical strings over nodes and writes a new event for each different one.
_MESSAGES = {
    Reason.POD_GROUP_MISSING: "{kind} {group} does not exist",
    Reason.INVALID_POD_GROUP: "{kind} {group} is invalid: {detail}",
    Reason.INVALID_MEMBER: "member {pod} is invalid: {detail}",
    Reason.MIXED_PRIORITIES: "members have different priorities: {detail}",
    Reason.MIXED_SCHEDULERS: "members name different schedulers: {detail}",
    Reason.HELD: "is held until the annotation muster.dev/hold is taken off",
    Reason.MEMBERS_MISSING: "{exist} of {minMember} members exist",
    Reason.ROLE_MEMBERS_MISSING: "{exist} of {minMember} members of role {role} exist",
    Reason.MEMBERS_GATED: "{gated} of {exist} members have scheduling gates, {minMember} must be free of them",
    Reason.ROLE_MEMBERS_GATED: (
        "{gated} of {exist} members of role {role} have scheduling gates, {minMember} must be free of them"
    ),
    Reason.UNKNOWN_QUEUE: "no Queue is called {queue}; known: {known}",
    Reason.INVALID_QUEUE: "Queue {queue} cannot be used: {detail}",
    Reason.NAMESPACE_NOT_ALLOWED: "Queue {queue} takes no gangs from namespace {namespace}",
    Reason.QUEUE_STOPPED: "Queue {queue} starts nothing: its stopPolicy is {policy}",
    Reason.EXCEEDS_QUOTA: (
        "asks for {wanted} {resource} of {flavor}, of which Queue {queue} can never have more than {most}{whose}"
    ),
    Reason.QUOTA_EXCEEDED: (
        "asks for {wanted} {resource} of {flavor}, of which Queue {queue} has {left} left now{whose}"
    ),
    Reason.TOO_MANY_RUNNING: "Queue {queue} runs {running} of at most {most} gangs",
    Reason.RUNNING_LIMIT: (
        "{who} may run {most} {what} at a time in Queue {queue}: {running} run, and this asks for {wanted} more"
    ),
    Reason.BEHIND_IN_QUEUE: "{head} is ahead in Queue {queue}, and no gang may pass it",
    Reason.MIN_RESOURCES_UNMET: "minResources asks for {wanted}, the cluster has less free",
    Reason.NO_NODE_MATCHES: "none of {nodes} nodes matches the selectors and tolerations of {unplaceable}",
    Reason.EXCEEDS_CLUSTER: "{fits} of {minMember} members would fit on the empty cluster",
    Reason.EXCEEDS_DOMAIN: (
        "no {level} is large enough for {part}, however empty: at most {fits} of {minMember} members fit"
    ),
    Reason.NEVER_ALIGNED: (
        "the kubelets' Topology Managers would admit {fits} of {minMember} members on the empty cluster: no node has "
        "{request} in as few NUMA zones as its policy demands"
    ),
    Reason.UNKNOWN_LEVEL: "no topology level is called {level}; known: {known}",
    Reason.INSUFFICIENT_CAPACITY: "{fits} of {minMember} members fit now",
    Reason.DOMAIN_FULL: "no {level} has room for {part} now: at most {fits} of {minMember} members fit",
    Reason.ZONES_FULL: (
        "{fits} of {minMember} members fit now into NUMA zones as the kubelets' Topology Managers demand; by their "
        "number alone {counted} would"
    ),
    Reason.SEARCH_GAVE_UP: (
        "no place found yet, and none ruled out: the search knows what {searched} of {nodes} nodes hold together"
    ),
    Reason.AWAITING_NODES: "{detail}; ProvisioningRequest {request} asks for nodes for {pods} pods: {state}",
    Reason.BEHIND_HEAD: "the free capacity is held for {head}, which is ahead in the queue",
    Reason.KEPT_FOR_REPAIRS: "the free capacity is kept for repairs of gangs of Queue {queue}",
    Reason.PREEMPTING: "its place is being cleared; pods of others that are still there: {pods}{notice}",
    Reason.BEING_EVICTED: "is being evicted for {by}; pods of it that are still there: {pods}",
    Reason.NODES_LOST: "members on lost nodes ({nodes}): {lost}; there is no other place for them now: {detail}",
    Reason.REPAIRING: "members that were on lost nodes: {lost}; their new places are kept until others come for them",
    Reason.BACKING_OFF: "backing off after {attempts} reservations that did not start",
    Reason.REFUSED_BY_SCHEDULER: "kube-scheduler refused: {detail}",
    Reason.BINDING_REFUSED: "the API server does not bind it: {detail}",
    Reason.REJECTED_BY_KUBELET: (
        "kubelets rejected such pods on nodes that have room; {fits} of {minMember} members fit on other nodes"
    ),
    Reason.MAX_MEMBER_REACHED: (
        "the gang has as many members on nodes as its maximum allows; {beyond} wait for one of them to end"
    ),
    Reason.AWAITING_MEMBERS: "placed; waits for {minMember} members to reach bind",
    Reason.WRITES_BACKLOGGED: "nominations do not get through to the API server",
    Reason.CACHE_NOT_SYNCED: "{detail}",
    Reason.CACHE_STALE: "nothing heard from the API server about {detail}",
    Reason.NOT_LEADING: "the kube-scheduler beside this Muster does not hold the Lease",
}


#: How they read where they would otherwise repeat numbers that change with everything that starts or ends elsewhere.
_STEADY_MESSAGES = {
    Reason.RUNNING_LIMIT: "{who} may run {most} {what} at a time in Queue {queue}, and this asks for more",
    Reason.QUOTA_EXCEEDED: "asks for {wanted} {resource} of {flavor}, of which Queue {queue} has less left now{whose}",
    Reason.INSUFFICIENT_CAPACITY: "not enough room now, minMember is {minMember}",
    Reason.DOMAIN_FULL: "no {level} has room for {part} now",
    Reason.ZONES_FULL: (
        "not enough room now in NUMA zones as the kubelets' Topology Managers demand, minMember is {minMember}"
    ),
    Reason.SEARCH_GAVE_UP: "no place found yet, and none ruled out",
    Reason.AWAITING_NODES: "not enough room now; ProvisioningRequest {request} asks for nodes",
    Reason.PREEMPTING: "its place is being cleared",
    Reason.BEING_EVICTED: "is being evicted for {by}",
    Reason.NODES_LOST: "members are on lost nodes, and there is no other place for them now",
    Reason.REPAIRING: "members were on lost nodes; their new places are kept until others come for them",
    Reason.MAX_MEMBER_REACHED: "the gang has as many members on nodes as its maximum allows",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """One gang's answer to "why not now?".

    `numbers` are counts for programs; `names` are the words that the message needs beside them.
    """

    reason: Reason
    numbers: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """Render the one sentence that every channel shows."""
        said = _MESSAGES[self.reason].format(**self.numbers, **self.names)
        lacks = self.names.get("devices")  # what nodes lack of devices, where that is known
        return f"{said}; {lacks}" if lacks else said

    @property
    def steady_message(self) -> str:
        """Render the sentence for kube-scheduler, without numbers that change while the reason stays.

        With each other sentence it writes the pod's status and an event; the status wakes the pod, and it asks again.
        """
        steady = _STEADY_MESSAGES.get(self.reason)
        return self.message if steady is None else steady.format(**self.numbers, **self.names)


#: How much of a wrong text is repeated; an Event has room for 1024 characters.
_LONGEST_QUOTE = 80


def quoted(text: str) -> str:
    """Quote a text, shortened so that a sentence about it stays readable."""
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}...")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in an object: where, and what to do."""

    field: str
    message: str

    def __str__(self) -> str:
        """Render as `field: message`."""
        return f"{self.field}: {self.message}"
