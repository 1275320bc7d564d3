"""What a bad tenant does to a cluster: a catalogue of harms, each made up from a seed before it begins.

A tenant has the rights of a user in its namespace, and those to make Queues and PersistentVolumeClaims; more than a
platform should give. Its own Queue and the nodes that it may fill without one (`TRAPS`) leave room for others: what is
tried is what it can take from them besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from localcluster.client import POD_GROUPS, PODS, QUEUES, JsonObject, Resource
from localcluster.nodes import GPU, HOSTNAME_LABEL, RACK_LABEL
from localcluster.workloads import POD_GROUP_LABEL, GangSpec, PodTemplate, Role
from tests.controlplane.volumes import claim, mount

#: The bad tenant's namespace and Queue, the root of all Queues, and the nodes that pods with `nodeName` go to.
TENANT, ROOT = "bad", "cluster"
TRAPS = ("trap-0", "trap-1")
#: PriorityClasses that the tenant may use.
PRIORITIES = {"lowest": -1_000_000, "highest": 1_000_000}

QUEUE_LABEL = "muster.dev/queue"

#: How long the harms of one round go on (seconds), and how many requests one harm and a round take at most.
SECONDS = 5.0
MOST_STEPS, MOST_IN_ALL = 100, 200

ABSURD = ("200000000", "9223372036854775807", "9223372036854775807k", "8Ei", "1e18", "999999999999999n")


@dataclass(frozen=True, slots=True)
class Step:
    """One request: an object to create, to patch (a merge patch with the object's name), or to delete."""

    verb: Literal["create", "patch", "delete"]
    item: JsonObject
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class Harm:
    """What the tenant does from `at` on (seconds after the round began), its steps evenly over `lasts` seconds."""

    kind: str
    at: float
    lasts: float
    steps: tuple[Step, ...] = field(repr=False)

    def __str__(self) -> str:
        """Write it as one line."""
        return f"{self.at:6.2f} s  {self.kind}: {len(self.steps)} requests in {self.lasts:.1f} s"


@dataclass(frozen=True, slots=True)
class Tenant:
    """The random choices of one harm, and the words in which it makes objects; names begin with `name`."""

    random: Random
    name: str

    def count(self, most: int = MOST_STEPS) -> int:
        """Return how many, from a few to `most`, small numbers as often as large ones."""
        chosen: float = most ** self.random.uniform(0.3, 1.0)
        return max(2, round(chosen))

    def template(self, **options: object) -> PodTemplate:
        """Return a pod of the tenant's Queue, with any priority."""
        chosen: dict[str, object] = {
            "gpus": self.random.choice((0, 1, 1, 2, 8)),
            "priority_class": self.random.choice((None, *PRIORITIES)),
            "labels": {QUEUE_LABEL: TENANT},
            **options,
        }
        return PodTemplate(**chosen)  # type: ignore[arg-type] # fields of a PodTemplate by name

    def gang(self, number: int, template: PodTemplate, members: int, **spec: object) -> Iterator[Step]:
        """Create a gang of pods alike."""
        name = f"{self.name}-{number}"
        chosen: dict[str, object] = {"min_member": members, "roles": (Role("", members, template),), **spec}
        gang = GangSpec(name, TENANT, **chosen)  # type: ignore[arg-type] # fields of a GangSpec by name
        yield Step("create", gang.pod_group())
        for pod in gang.pods():
            yield Step("create", pod)

    def gangs(self, template: Callable[[int], PodTemplate], most: int = 32) -> Iterator[Step]:
        """Create gangs of templates, with `most` members each at most, until there are pods enough."""
        number, left = 0, self.count()
        while left > 0:
            members = min(left, self.random.choice((1, 2, 4, 8, most)))
            yield from self.gang(number, template(number), members)
            number, left = number + 1, left - members

    def pods(self, template: Callable[[int], PodTemplate], count: int) -> Iterator[Step]:
        """Create pods that belong to no gang."""
        for number in range(count):
            yield Step("create", template(number).pod(f"{self.name}-{number}", TENANT))


def _node_affinity(key: str, values: list[str]) -> JsonObject:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }


def _pod_affinity(kind: str, label: str) -> JsonObject:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": HOSTNAME_LABEL}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def missing_claim(tenant: Tenant) -> Iterator[Step]:
    """All pods of gangs, or one, mount a claim that does not exist."""
    spec = mount("missing")
    for number in range(tenant.random.choice((1, 2, 6))):
        members = tenant.random.choice((2, 8, 32))
        bad, good = tenant.template(gpus=1, spec=spec), tenant.template(gpus=1)
        roles = (Role("store", 1, bad), Role("worker", members - 1, tenant.random.choice((bad, good))))
        yield from tenant.gang(number, bad, members, roles=roles)


def unbound_claims(tenant: Tenant) -> Iterator[Step]:
    """Pods mount claims of a class without volumes."""
    for number in range(tenant.count(40)):
        name = f"{tenant.name}-{number}"
        wanted = claim(name)
        wanted["metadata"]["namespace"] = TENANT
        yield Step("create", wanted)
        yield from tenant.gang(number, tenant.template(spec=mount(name)), 2)


def no_such_node(tenant: Tenant) -> Iterator[Step]:
    """Pods ask for nodes that there are not, each for others."""
    return tenant.gangs(lambda number: tenant.template(spec=_node_affinity("pool", [f"{tenant.name}-{number}"])))


def not_tolerated(tenant: Tenant) -> Iterator[Step]:
    """Pods ask for nodes whose taint they do not tolerate."""
    return tenant.gangs(lambda _number: tenant.template(spec=_node_affinity(HOSTNAME_LABEL, list(TRAPS))))


def absurd_amounts(tenant: Tenant) -> Iterator[Step]:
    """Pods ask for more of anything than the world has, some of them on a node."""
    for number in range(tenant.count(60)):
        resource = tenant.random.choice(
            (GPU, "cpu", "memory", "ephemeral-storage", f"example.com/r{number}", "hugepages-2Mi")
        )
        amount = tenant.random.choice(ABSURD)
        if resource not in {"cpu", "memory", "ephemeral-storage"}:
            amount = tenant.random.choice(("200000000", "9223372036854775807"))
        if resource == "hugepages-2Mi":
            amount = "8796093022206Mi"
        node = tenant.random.choice((None, *TRAPS))
        pod = tenant.template(node_name=node).pod(f"{tenant.name}-{number}", TENANT)
        for container in pod["spec"]["containers"]:
            container["resources"] = {"requests": {"cpu": "1", resource: amount}, "limits": {resource: amount}}
        yield Step("create", pod)


def planted(tenant: Tenant) -> Iterator[Step]:
    """Pods are put on nodes without any scheduler, beyond the Queue's quota, and say that they must not be evicted."""
    said = tenant.random.choice(({}, {"muster.dev/preemptible": "false"}))
    return tenant.pods(
        lambda _number: tenant.template(
            gpus=tenant.random.choice((1, 8)), node_name=tenant.random.choice(TRAPS), annotations=said
        ),
        tenant.count(30),
    )


def protected(tenant: Tenant) -> Iterator[Step]:
    """Gangs use the whole Queue, and a budget lets none of their pods be evicted."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {QUEUE_LABEL: TENANT}}}
    metadata = {"name": tenant.name, "namespace": TENANT}
    yield Step("create", {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
    yield from tenant.gangs(lambda _number: tenant.template(gpus=tenant.random.choice((1, 4))))


def unique_shapes(tenant: Tenant) -> Iterator[Step]:
    """Each pod asks for another amount, and for nodes of its own words."""

    def template(number: int) -> PodTemplate:
        values = [f"{tenant.name}-{number}-{value}" for value in range(50)]
        term = {"matchExpressions": [{"key": "example.com/pool", "operator": "NotIn", "values": values}]}
        node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return tenant.template(
            gpus=tenant.random.choice((1, 9)),
            cpu=f"{100 + number}m",
            memory=f"{1_000_000 + number}",
            spec={"affinity": {"nodeAffinity": node}},
        )

    return tenant.gangs(template, most=4)


def many_roles(tenant: Tenant) -> Iterator[Step]:
    """One gang has a role for each pod, with minimums of their own, or thousands of minimums of no pod."""
    members = tenant.count(64)
    named = [f"r{number}" for number in range(members)]
    said = named if tenant.random.random() < 0.5 else [f"x{number}" for number in range(5_000)]
    minimums = {"muster.dev/role-minimums": ",".join(f"{role}=1" for role in said)}
    roles = tuple(Role(role, 1, tenant.template(gpus=1, cpu=f"{100 + n}m")) for n, role in enumerate(named))
    return tenant.gang(0, tenant.template(), members, roles=roles, annotations=minimums)


def incomplete(tenant: Tenant) -> Iterator[Step]:
    """Gangs have fewer pods than they need, some by very much."""
    for number in range(tenant.count(60)):
        least = tenant.random.choice((3, 64, 100_000, 2**31 - 1))
        yield from tenant.gang(number, tenant.template(), 2, min_member=least)


def gated(tenant: Tenant) -> Iterator[Step]:
    """Pods have gates that nobody opens, or Muster's own."""
    gates = tenant.random.choice(
        (("example.com/never",), ("muster.dev/admission",), ("muster.dev/admission", "example.com/never"))
    )
    return tenant.gangs(lambda _number: tenant.template(gates=gates, gpus=tenant.random.choice((1, 9))))


def peerless(tenant: Tenant) -> Iterator[Step]:
    """Pods must share a node with others that there are not, or with none of their own, by labels of their own."""
    kind = tenant.random.choice(("podAffinity", "podAntiAffinity"))

    def template(number: int) -> PodTemplate:
        label = f"{tenant.name}-{number}"
        return tenant.template(
            gpus=1,
            labels={QUEUE_LABEL: TENANT, "app": label},
            spec=_pod_affinity(kind, label if kind == "podAntiAffinity" else "nowhere"),
        )

    return tenant.gangs(template)


def greedy(tenant: Tenant) -> Iterator[Step]:
    """Gangs of the highest priority want all GPUs that there are, and more."""
    for number in range(tenant.random.choice((1, 3, 8))):
        template = tenant.template(gpus=tenant.random.choice((1, 8)), priority_class="highest")
        yield from tenant.gang(number, template, tenant.random.choice((2, 8, 32)))


def garbage(tenant: Tenant) -> Iterator[Step]:
    """Annotations about topology, duration and queue say what nobody can read."""
    words = (
        "",
        "no/such/level",
        "rack=0",
        "rack=4,node=3",
        "a" * 5_000,
        "kubernetes.io/hostname",
        RACK_LABEL,
        "rack=2,rack=4",
        "\u202e",
        "{}",
        "=,=,=",
        "1e400",
    )
    keys = (
        "topology-required",
        "topology-preferred",
        "topology-slice",
        "topology-role-groups",
        "objective",
        "expected-duration",
        "placement",
        "below-minimum",
        "preemptible",
        "no-such-key",
        "role-minimums",
    )

    def said() -> dict[str, str]:
        chosen = tenant.random.sample(keys, tenant.random.randint(1, 5))
        return {f"muster.dev/{key}": tenant.random.choice(words) for key in chosen}

    for number in range(tenant.count(40)):
        yield from tenant.gang(number, tenant.template(annotations=said()), 2, annotations=said())


def labelled(tenant: Tenant) -> Iterator[Step]:
    """Pods carry thousands of labels, different ones each."""
    for number in range(tenant.count(15)):
        labels = {f"l{number}-{key}": "x" * 60 for key in range(2_000)}
        yield from tenant.gang(number, tenant.template(labels={QUEUE_LABEL: TENANT, **labels}), 2)


def churn(tenant: Tenant) -> Iterator[Step]:
    """Small gangs that could run are created and deleted at once, under the same few names."""
    for number in range(tenant.count(30)):
        made = list(tenant.gang(number % 3, tenant.template(gpus=1), 2))
        yield from made
        for step in reversed(made):
            yield replace(step, verb="delete")


def relabelled(tenant: Tenant) -> Iterator[Step]:
    """Members go from gang to gang."""
    groups = [f"{tenant.name}-{number}" for number in range(4)]
    for number in range(len(groups)):
        yield from tenant.gang(number, tenant.template(gpus=tenant.random.choice((1, 9))), 4)
    for _ in range(tenant.count(80)):
        pod = f"{tenant.random.choice(groups)}-{tenant.random.randrange(4)}"
        label = tenant.random.choice((*groups, None, "nowhere"))
        metadata = {"name": pod, "namespace": TENANT, "labels": {POD_GROUP_LABEL: label}}
        yield Step("patch", {"metadata": metadata}, PODS)


def edited(tenant: Tenant) -> Iterator[Step]:
    """Gangs have their minMember and their annotations changed all the time."""
    for number in range(3):
        yield from tenant.gang(number, tenant.template(), 4)
    for _ in range(tenant.count(100)):
        metadata = {"name": f"{tenant.name}-{tenant.random.randrange(3)}", "namespace": TENANT}
        said = {"muster.dev/topology-required": tenant.random.choice(("rack", "zone", "", None, "node"))}
        least = tenant.random.choice((1, 4, 5, 2**31 - 1))
        yield Step("patch", {"metadata": {**metadata, "annotations": said}, "spec": {"minMember": least}}, POD_GROUPS)


def foreign(tenant: Tenant) -> Iterator[Step]:
    """Pods of a scheduler that there is not, with labels and shapes of their own."""
    return tenant.pods(
        lambda number: tenant.template(
            scheduler="nobody",
            labels={f"k{number}": "v"},
            spec=_pod_affinity("podAntiAffinity", f"{tenant.name}-{number}"),
        ),
        tenant.count(),
    )


def single(tenant: Tenant) -> Iterator[Step]:
    """Pods of no gang that fit no node, or that fit."""
    return tenant.pods(lambda _number: tenant.template(gpus=tenant.random.choice((1, 9, 1_000))), tenant.count())


def stuck(tenant: Tenant) -> Iterator[Step]:
    """Pods are deleted and stay, for the sake of a finalizer."""
    steps = list(tenant.gangs(lambda _number: tenant.template(finalizers=("example.com/never",), gpus=1)))
    yield from steps
    for step in steps:
        if step.item["kind"] == "Pod":
            yield replace(step, verb="delete")


def spread(tenant: Tenant) -> Iterator[Step]:
    """Pods must spread over domains, each by a selector of its own, or bind a port that others have."""

    def template(number: int) -> PodTemplate:
        label = f"{tenant.name}-{number}"
        constraint = {
            "maxSkew": 1,
            "topologyKey": tenant.random.choice((HOSTNAME_LABEL, RACK_LABEL, "nowhere")),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": label}},
        }
        labels = {QUEUE_LABEL: TENANT, "app": label}
        return tenant.template(gpus=1, labels=labels, host_port=8080, spec={"topologySpreadConstraints": [constraint]})

    return tenant.gangs(template)


def trespass(tenant: Tenant) -> Iterator[Step]:
    """Pods name the Queue of others, or one that there is not."""
    return tenant.gangs(
        lambda _number: tenant.template(labels={QUEUE_LABEL: tenant.random.choice(("good", "nowhere", ROOT, "-"))})
    )


def queues(tenant: Tenant) -> Iterator[Step]:
    """Queues without quota come by the dozen, in chains, in circles, below none that exists, and keep changing."""
    count = tenant.count(100)
    names = [f"{tenant.name}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        parent = tenant.random.choice((None, ROOT, TENANT, names[number - 1], tenant.random.choice(names), "nowhere"))
        yield Step("create", _queue(name, None if parent == name else parent))
    for _ in range(tenant.count(60)):
        name, parent = tenant.random.choice(names), tenant.random.choice((*names, ROOT, "nowhere"))
        if parent != name:
            yield Step(
                "patch",
                {"metadata": {"name": name}, "spec": {"parent": parent, "weight": tenant.random.choice((0, 1, 1000))}},
                QUEUES,
            )
    for number in range(5):
        yield from tenant.gang(number, tenant.template(gpus=1, labels={QUEUE_LABEL: tenant.random.choice(names)}), 2)
    for name in names[::2]:
        yield Step("delete", {"kind": "Queue", "metadata": {"name": name}}, QUEUES)


def _queue(name: str, parent: str | None) -> JsonObject:
    flavors = [{"name": "all", "resources": [{"name": GPU, "nominalQuota": 0}]}]
    spec = {"flavors": flavors, **({} if parent is None else {"parent": parent})}
    return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}


CATALOGUE: Mapping[str, Callable[[Tenant], Iterator[Step]]] = {
    harm.__name__: harm
    for harm in (
        missing_claim,
        unbound_claims,
        no_such_node,
        not_tolerated,
        absurd_amounts,
        planted,
        protected,
        unique_shapes,
        many_roles,
        incomplete,
        gated,
        peerless,
        greedy,
        garbage,
        labelled,
        churn,
        relabelled,
        edited,
        foreign,
        single,
        stuck,
        spread,
        trespass,
        queues,
    )
}


def write_round(seed: int) -> tuple[Harm, ...]:
    """Make up what the tenant does in one round, from its seed alone: three to six harms, in order of time."""
    random = Random(seed)
    harms: list[Harm] = []
    for place, kind in enumerate(random.choices(tuple(CATALOGUE), k=random.randint(3, 6))):
        tenant = Tenant(Random(random.getrandbits(32)), f"{kind.replace('_', '-')}-{place}")
        steps = tuple(CATALOGUE[kind](tenant))[: MOST_IN_ALL - sum(len(harm.steps) for harm in harms)]
        at = random.uniform(0.0, SECONDS / 2)
        harms.append(Harm(kind, at, random.choice((0.0, 0.0, SECONDS - at)), steps))
    return tuple(sorted(harms, key=lambda harm: harm.at))
