"""Random trees against exhaustive search: a gang starts, and grows, exactly if any of its choices has a place.

Trees have four leaves and are three parts deep or deeper, with levels at two nodes and minimums at every one; clusters
have blocks and racks, some of it taken. What happens then breaks none of what a tree asks for: no part is bound without
its minimum, none is in two domains, and who takes room from a gang takes whole parts that it can do without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import Arrive, PodGone, PodSeen
from extender.judge import HOPELESS
from extender.objects.branches import Branch
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import Slice, TopologyRequest
from extender.placement.candidates import PlacementTerms
from tests.examples import share
from tests.placement.exhaustive import Placeable
from tests.worlds import GPU, Job, World

TIERS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
LABELS = {"block": ("block",), "rack": ("block", "rack"), "node": ("block", "rack", "name")}

#: Where the four leaves are: 0 is a leaf.
SHAPES = (((0, 0), (0, 0)), ((0, 0), (0, 0)), ((0, (0, 0)), 0), (((0, 0), 0), 0), ((0, 0, 0), 0))


def tree_of(random: Random, *, sliced: bool) -> Branch:
    """Draw a tree: levels at two of its nodes, mostly at inner ones, and slices at one now and then."""
    names = iter("pqrs")

    def built(shape: object) -> Branch:
        if not isinstance(shape, tuple):
            return Branch(next(names), random.choice([1, 1, 2]))
        parts = tuple(map(built, shape))
        return Branch("".join(part.name for part in parts), random.randint(1, len(parts)), parts)

    tree = built(random.choice(SHAPES))
    nodes = [tree, *tree.inside]
    inner = [each.name for each in nodes if each.parts]
    at = random.sample(inner if random.random() < 0.8 else [each.name for each in nodes], 2)
    cut = random.choice(inner) if sliced and random.random() < 0.3 else ""

    def asking(part: Branch) -> Branch:
        level = random.choice(list(LABELS)) if part.name in at else ""
        levels = (level, "") if random.random() < 0.8 else ("", level)
        slices = (Slice(2, random.choice(["rack", "node"])),) if part.name == cut else ()
        return Branch(part.name, part.least, tuple(map(asking, part.parts)), *levels, slices)

    return replace(asking(tree), name="all")


# The oracle: what a tree asks for, read off it plainly.


def whole(tree: Branch, have: Mapping[str, int]) -> bool:
    """Tell whether so many members of each role are enough."""
    if not tree.parts:
        return have.get(tree.name, 0) >= tree.least
    return sum(whole(part, have) for part in tree.parts) >= tree.least


def useless(tree: Branch, have: Mapping[str, int]) -> set[str]:
    """Return the roles with members of which some part around them lacks its minimum."""
    if not whole(tree, have):
        return {role for role in tree.roles if have.get(role, 0)}
    return set().union(*(useless(part, have) for part in tree.parts)) if tree.parts else set()


def ways(tree: Branch) -> Iterator[Counter[str]]:
    """Yield what would do: so many members of each role."""
    if not tree.parts:
        yield Counter({tree.name: tree.least})
        return
    for chosen in combinations(tree.parts, tree.least):
        found = [Counter[str]()]
        for part in chosen:
            found = [one + other for one in found for other in ways(part)]
        yield from found


def joins(tree: Branch, have: Mapping[str, int]) -> Iterator[Counter[str]]:
    """Yield what may join a gang together: what an outermost part that lacks its minimum needs, or one member more."""
    if not whole(tree, have):
        for way in ways(tree):
            lacking = Counter({role: least - have.get(role, 0) for role, least in way.items()})
            if more := +lacking:
                yield more
    elif not tree.parts:
        yield Counter({tree.name: 1})
    for part in tree.parts if whole(tree, have) else ():
        yield from joins(part, have)


@dataclass
class Ground:
    """What is free, and where members are: whether more have a place is found by trying every node for each."""

    nodes: Mapping[str, Mapping[str, str]]
    free: dict[str, int]
    together: list[tuple[str, frozenset[str]]]
    chosen: dict[int, object]

    @classmethod
    def of(cls, world: World, tree: Branch, places: Iterable[tuple[str, str]]) -> Ground:
        """Read the ground of a gang with members (role, node) that have a place."""
        nodes = {each.name: {**each.labels, "name": each.name} for each in world.state.nodes()}
        free = {name: world.state.free_on(name).get(GPU, 0) for name in nodes}
        together = [(each.required, each.roles) for each in (tree, *tree.inside) if each.required]
        ground = cls(nodes, free, together, {})
        for role, name in places:
            assert ground.take(role, name, 0), (role, name)
        return ground

    def take(self, role: str, name: str, gpus: int) -> bool:
        """Put a member on a node, and tell whether it may be there."""
        if self.free[name] < gpus:
            return False
        for index, (level, roles) in enumerate(self.together):
            if role in roles:
                domain = tuple(self.nodes[name][label] for label in LABELS[level])
                if self.chosen.setdefault(index, domain) != domain:
                    return False
        self.free[name] -= gpus
        return True

    def holds(self, pods: Sequence[tuple[str, int]]) -> bool:
        """Tell whether all of some members (role, GPUs) have a place."""
        if not pods:
            return True
        (role, gpus), *rest = pods
        for name in self.nodes:
            other = Ground(self.nodes, dict(self.free), self.together, dict(self.chosen))
            if other.take(role, name, gpus) and other.holds(rest):
                return True
        return False


class Play:
    """A gang with a tree on a small cluster, and what happens to it."""

    def __init__(self, seed: int, *, sliced: bool = False) -> None:
        self.random = random = Random(seed)
        self.world = World(topology_levels=TIERS)
        self.serial = 0
        for _ in range(random.randint(2, 6)):
            self.add_node()  # of which random trees fit about half
        self.tree = tree_of(random, sliced=sliced)
        self.fillers: list[Pod] = []
        self.urgent: list[Job] = []
        for node in self.world.state.nodes():
            if random.random() < 0.3:
                self.fill(node.name, 1)
        self.job = Job(self.world, GroupRef(VOLCANO, "default", "gang"))
        self.world.group(self.job.ref, 1, tree=self.tree)
        self.gpus = {role: random.choice([1, 1, 2, 3]) for role in sorted(self.tree.roles)}
        for role in sorted(self.tree.roles):
            for _ in range(random.choice([0, 1, 2, 2, 3])):
                self.create(role)

    def add_node(self) -> None:
        """Let a node come."""
        self.serial += 1
        labels = {"block": f"b{self.random.randrange(2)}", "rack": f"r{self.random.randrange(2)}"}
        self.world.nodes(1, self.random.choice([1, 2, 4]), prefix=f"n{self.serial}", labels=labels)

    def fill(self, node: str, gpus: int) -> None:
        """Let a pod of another scheduler hold some of a node."""
        self.serial += 1
        pod = self.world.pod(f"filler-{self.serial}", gpus, node_name=node, scheduler_name="default-scheduler")
        self.fillers.append(pod)
        self.world.tell(PodSeen(self.fillers[-1]))

    def create(self, role: str) -> None:
        """Let the gang's controller create a member."""
        self.serial += 1
        pod = self.world.pod(f"{role}-{self.serial}", self.gpus[role], group=self.job.ref, role=role)
        self.job.pods.append(pod)
        self.world.tell(PodSeen(pod))

    def judge(self) -> None:
        """Judge until nothing is searched any more."""
        self.world.judge()
        for _ in range(70):
            if self.job.reason is not Reason.SEARCH_GAVE_UP:
                break
            self.world.judge()

    @property
    def places(self) -> dict[str, str]:
        """Return pod UID -> node, bound or promised."""
        reserved = {uid: slot.node for uid, slot in self.job.slots.items()}
        return {pod.uid: pod.node_name for pod in self.job.pods if pod.node_name} | reserved

    def counts(self, uids: Iterable[str]) -> Counter[str]:
        """Count members by role."""
        among = set(uids)
        return Counter(pod.role for pod in self.job.pods if pod.uid in among)

    def step(self) -> None:
        """Let one thing happen, and all follow."""
        random = self.random
        kind = random.choice(["more", "more", "gone", "room", "fill", "node", "urgent", "urgent"])
        if kind == "more":
            role = random.choice(sorted(self.tree.roles))
            for _ in range(random.choice([1, 1, 2])):
                self.create(role)
        elif kind == "gone" and self.job.pods:
            self.drop(random.choice(self.job.pods))
        elif kind == "room" and self.fillers:
            self.world.tell(PodGone(self.fillers.pop(random.randrange(len(self.fillers))).uid))
        elif kind == "fill":
            free = [node.name for node in self.world.state.nodes() if self.world.state.free_on(node.name).get(GPU, 0)]
            if free:
                self.fill(random.choice(free), 1)
        elif kind == "node":
            self.add_node()
        elif kind == "urgent":
            self.serial += 1
            members, gpus = random.randint(1, 3), random.choice([1, 1, 2])
            self.urgent.append(self.world.gang(f"urgent-{self.serial}", members, gpus, priority=10))
        self.settle()

    def drop(self, pod: Pod) -> None:
        """Let a member be gone."""
        self.job.pods.remove(pod)
        self.world.tell(PodGone(pod.uid))

    def settle(self) -> None:
        """Judge, bind and evict until nothing moves; check each step."""
        for _ in range(12):
            self.judge()
            moved = self.evict() or self.bind()
            self.check()
            if not moved:
                self.check_growth()
                return
        msg = "it goes on for ever"
        raise AssertionError(msg)

    def bind(self) -> bool:
        """Bring members to the barrier in any order; those that are let go are bound. Tell whether any were."""
        self.world.effects()
        waiting = sorted(self.job.slots)
        self.random.shuffle(waiting)
        there = {pod.uid for pod in self.job.pods if pod.node_name}
        for uid in waiting:
            self.world.tell(Arrive(uid, self.job.slots[uid].node))
            gone = set(self.world.effects().released)
            there |= gone
            have = self.counts(there)
            for role in {pod.role for pod in self.job.pods if pod.uid in gone}:
                assert role not in useless(self.tree, have), ("bound in part", role, have)
        places = self.places
        bound = [at for at, pod in enumerate(self.job.pods) if pod.uid in there and not pod.node_name]
        for at in bound:
            self.job.see(at, node_name=places[self.job.pods[at].uid], phase=Phase.RUNNING)
        for job in self.others:
            job.run()
        return bool(bound)

    @property
    def others(self) -> list[Job]:
        """Return the other gangs that wait."""
        return [job for job in self.urgent if not all(pod.node_name for pod in job.pods)]

    def evict(self) -> bool:
        """Let those go that are evicted; their controller creates others. Tell whether any are."""
        evicted = {each.pod.uid for each in self.world.effects().evictions.values()}
        leaving = [pod for pod in self.job.pods if pod.uid in evicted]
        bound = [pod for pod in self.job.pods if pod.node_name]
        before, after = Counter(pod.role for pod in bound), Counter(pod.role for pod in bound if pod not in leaving)
        if leaving and len(leaving) < len(bound):
            assert whole(self.tree, after) or not whole(self.tree, before), ("broken", before, after)
            assert useless(self.tree, after) <= useless(self.tree, before), ("torn", before, after)
        for pod in leaving:
            self.drop(pod)
            self.create(pod.role)
        return bool(leaving)

    def check(self) -> None:
        """Assert that nothing is promised twice, and that no part is in two domains."""
        self.world.check_promises()
        roles = {pod.uid: pod.role for pod in self.job.pods}
        Ground.of(self.world, self.tree, [(roles[uid], node) for uid, node in self.places.items()])

    def check_growth(self) -> None:
        """Assert that what has no place finds none: neither what starts together nor what joins together."""
        if self.others:
            return  # room may be kept for it
        roles = {pod.uid: pod.role for pod in self.job.pods}
        places = [(roles[uid], node) for uid, node in self.places.items()]
        have = Counter(role for role, _ in places)
        left = Counter(pod.role for pod in self.job.pods) - have
        for more in joins(self.tree, have):
            if all(left[role] >= count for role, count in more.items()):
                pods = [(role, self.gpus[role]) for role, count in more.items() for _ in range(count)]
                ground = Ground.of(self.world, self.tree, places)
                assert not ground.holds(pods), ("could join", dict(more), places, self.job.wait)


@share(1)
@given(st.integers(0, 2**32))
def test_a_tree_starts_exactly_if_any_choice_of_its_parts_has_a_place(seed: int) -> None:
    """What is placed is what the tree asks for; what is said never to fit does not fit the empty cluster either."""
    started(seed)


def started(seed: int) -> bool:
    """Judge the gang of a seed; return whether it was placed."""
    play = Play(seed, sliced=True)
    job, tree, there = play.job, play.tree, Counter(pod.role for pod in play.job.pods)
    choices = [each for each in ways(tree) if all(there[role] >= count for role, count in each.items())]

    def exists() -> bool:
        return any(asked(play, [p for r in each for p in of(r)[: each[r]]]).exists() for each in choices)

    def of(role: str) -> list[Pod]:
        return [pod for pod in job.pods if pod.role == role]

    found = exists()
    play.judge()
    held = play.places
    assert bool(held) is found or (found and job.reason is Reason.SEARCH_GAVE_UP), (seed, found, job.wait)
    if not held and job.pods:
        assert job.reason is not None, seed
        hopeless = job.reason in HOPELESS
        for filler in play.fillers:
            play.world.tell(PodGone(filler.uid))
        assert not (hopeless and exists()), (seed, job.wait)
    elif held:
        counts = play.counts(held)
        assert whole(tree, counts), seed
        assert not useless(tree, counts), (seed, counts)
        sliced = counts in choices  # members that have joined others are counted off by their numbers
        problems = asked(play, [pod for pod in job.pods if pod.uid in held], sliced=sliced).problems(held)
        assert not [each for each in problems if "share no" in each or "admitted" in each], (seed, problems)
    return bool(held)


def asked(play: Play, pods: Sequence[Pod], *, sliced: bool = True) -> Placeable:
    """Return the question whether some members have a place as the tree asks."""
    terms = play.tree.terms
    topology = TopologyRequest(terms.required, "", terms.slices if sliced else (), terms.role_groups)
    return Placeable(play.world.state.table, tuple(pods), PlacementTerms(topology=topology), {}, frozenset())


@share(1)
@given(st.integers(0, 2**32))
def test_a_tree_grows_and_shrinks_by_whole_parts(seed: int) -> None:
    """Members come and go, nodes fill and empty, others take room: every step keeps what the tree asks for."""
    lived(seed)


def lived(seed: int) -> None:
    """Let a gang live through what a seed draws."""
    play = Play(seed)
    play.settle()
    for _ in range(play.random.randint(4, 8)):
        play.step()
