"""The judge finds each broken promise in a history that shows it, and none in one that does not."""

from __future__ import annotations

import pytest

from tests.judge.history import Json, Tolerance, Violation
from tests.judge.telling import Tale
from tests.judge.verdict import judge, report

STRICT = Tolerance(news=0.5, write=0.5, settle=5.0, returning=2.0, reservation=20.0)


def verdict(tale: Tale, *, arrivals: bool = True) -> list[Violation]:
    """Judge what has been told."""
    return judge(tale.history(arrivals=arrivals), STRICT)


def promises(tale: Tale, *, arrivals: bool = True) -> list[str]:
    """Return which promises are broken, each as often as it is."""
    return [violation.promise for violation in verdict(tale, arrivals=arrivals)]


@pytest.fixture
def tale() -> Tale:
    """Begin a tale with six nodes of eight GPUs."""
    begun = Tale()
    for number in range(6):
        begun.node(f"n{number}")
    return begun


class TestAtomic:
    """P1."""

    def test_whole_start_is_right(self, tale: Tale) -> None:
        """Members that are bound after minMember have arrived break nothing."""
        tale.start(*tale.gang("g", 3), on="n")
        tale.calm()
        tale.wait(100)
        assert verdict(tale) == []

    def test_binding_before_all_have_arrived(self, tale: Tale) -> None:
        """A Binding with one arrival too few is a violation, with the gang as evidence."""
        one, two, _ = tale.gang("g", 3)
        tale.start(one, two, on="n")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P1", "P1"]
        assert "when 2 members had arrived at bind" in found[0].text
        assert "g-0" in report(found)

    def test_arrival_that_was_answered_long_ago_does_not_count(self, tale: Tale) -> None:
        """A member whose bind call was refused has to arrive again."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0", until=tale.now + 1)
        tale.wait(10)
        tale.arrive(two, "n1")
        tale.bind(two, "n1")
        assert promises(tale) == ["P1"]

    def test_arrival_at_a_muster_that_died_does_not_count(self, tale: Tale) -> None:
        """A member held by a Muster that died has to arrive again; early in its successor's life, P6 is broken, too."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0")
        tale.wait(1)
        tale.restart()
        tale.wait(3)
        tale.arrive(two, "n1")
        tale.bind(two, "n1")
        assert promises(tale) == ["P1", "P6"]

    def test_binding_without_enough_members(self, tale: Tale) -> None:
        """Without arrivals, a Binding in a gang that lacks members is a violation."""
        tale.group("g", 2)
        tale.pod("g-0", "g")
        tale.start("g-0", on="n")
        assert promises(tale, arrivals=False) == ["P1"]

    def test_gated_members_do_not_count(self, tale: Tale) -> None:
        """A member with a scheduling gate is none yet."""
        tale.group("g", 2)
        tale.pod("g-0", "g")
        tale.pod("g-1", "g", schedulingGates=[{"name": "quota"}])
        tale.start("g-0", on="n")
        assert promises(tale, arrivals=False) == ["P1"]

    def test_binding_without_pod_group(self, tale: Tale) -> None:
        """A member whose PodGroup does not exist is not bound."""
        tale.pod("g-0", "g")
        tale.start("g-0", on="n")
        assert promises(tale) == ["P1"]

    def test_succeeded_members_count(self, tale: Tale) -> None:
        """A replacement is bound on its own when the others have succeeded."""
        one, two, three = tale.gang("g", 3)
        tale.start(one, two, three, on="n")
        tale.end(one)
        tale.end(two)
        tale.wait(20)
        tale.delete("Pod", three)
        tale.pod(three, "g")
        tale.arrive(three, "n4")
        tale.bind(three, "n4")
        assert verdict(tale) == []

    def test_what_was_true_just_before_is_overlooked(self, tale: Tale) -> None:
        """A member deleted a moment before the Binding, or minMember raised then, could not be known."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0")
        tale.arrive(two, "n1")
        tale.delete("Pod", two)
        tale.group("g", 5)
        tale.wait(0.3)
        tale.bind(one, "n0")
        assert verdict(tale) == []

    def test_pods_of_other_schedulers_are_not_judged(self, tale: Tale) -> None:
        """What another scheduler binds is its own affair."""
        tale.pod("other", "g", schedulerName="default-scheduler")
        tale.bind("other", "n0")
        assert verdict(tale) == []

    def test_gangs_by_label_need_no_pod_group(self, tale: Tale) -> None:
        """A gang by label has the minMember of its pods' annotations."""
        for name in ("g-0", "g-1"):
            tale.pod(name, labels={"muster.dev/gang": "g"}, annotations={"muster.dev/min-member": "2"})
        tale.start("g-0", on="n")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P1"]
        assert "when 1 members had arrived at bind" in found[0].text


class TestCapacity:
    """P2."""

    def test_two_pods_on_one_node(self, tale: Tale) -> None:
        """A Binding beyond what the node has is a violation."""
        tale.pod("a")
        tale.pod("b", gpus=1)
        tale.arrive("a", "n0")
        tale.bind("a", "n0")
        tale.arrive("b", "n0")
        tale.bind("b", "n0")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P2"]
        assert "has 8 nvidia.com/gpu, and 9 with pod b" in found[0].text

    def test_room_given_back_is_used_again(self, tale: Tale) -> None:
        """Pods that have ended or are gone hold nothing."""
        for name in ("a", "b", "c"):
            tale.pod(name)
            tale.arrive(name, "n0")
            tale.bind(name, "n0")
            if name == "a":
                tale.end(name, "Failed")
            else:
                tale.delete("Pod", name)
        assert verdict(tale) == []

    def test_stranger_that_came_just_before_is_overlooked(self, tale: Tale) -> None:
        """What another scheduler put on the node could not be known at once, but later it could."""
        tale.pod("stranger", schedulerName="default-scheduler", nodeName="n0")
        tale.pod("a")
        tale.pod("b", gpus=0)
        tale.arrive("a", "n0")
        tale.bind("a", "n0")
        assert verdict(tale) == []
        tale.wait(5)
        tale.pod("c", gpus=1)
        tale.arrive("c", "n0")
        tale.bind("c", "n0")
        assert promises(tale) == ["P2"]

    def test_node_that_shrinks_later_breaks_nothing(self, tale: Tale) -> None:
        """A node is judged as it was when the pod was bound."""
        tale.pod("a")
        tale.start("a", on="n")
        tale.node("n0", gpus=2)
        tale.wait(10)
        assert verdict(tale) == []
        tale.pod("b", gpus=0)
        tale.arrive("b", "n0")
        tale.bind("b", "n0")
        assert verdict(tale) == []

    def test_closed_node(self, tale: Tale) -> None:
        """A pod that is bound to a node cordoned long before is a violation; right after the cordon it is none."""
        tale.pod("a")
        tale.node("n0", unschedulable=True)
        tale.arrive("a", "n0")
        tale.wait(0.1)
        tale.bind("a", "n0")
        assert verdict(tale) == []
        tale.node("n1", taints=[{"key": "broken", "effect": "NoSchedule"}])
        tale.wait(10)
        tale.pod("b")
        tale.arrive("b", "n1")
        tale.bind("b", "n1")
        tale.pod("c", tolerations=[{"key": "broken", "operator": "Exists"}], gpus=0)
        tale.arrive("c", "n1")
        tale.bind("c", "n1")
        assert promises(tale) == ["P2"]

    def test_node_that_does_not_exist(self, tale: Tale) -> None:
        """A pod that is bound to a node long gone is a violation."""
        tale.pod("a")
        tale.delete("Node", "n0")
        tale.wait(10)
        tale.arrive("a", "n0")
        tale.bind("a", "n0")
        assert promises(tale) == ["P2"]

    def test_pod_that_moves(self, tale: Tale) -> None:
        """A pod with a node keeps it."""
        tale.pod("a")
        tale.start("a", on="n")
        tale.arrive("a", "n1")
        tale.bind("a", "n1")
        assert "P2" in promises(tale)

    def test_nominations_beyond_the_node(self, tale: Tale) -> None:
        """Nominations that stay on a node for more than it has are a promise made twice; a brief overlap is none."""
        tale.calm()
        one, two = tale.gang("g", 2)[0], tale.gang("h", 2)[0]
        tale.nominate(one, "n0")
        tale.nominate(two, "n0")
        tale.wait(3)
        assert verdict(tale) == []
        tale.wait(3)
        assert promises(tale) == ["P2", "P4", "P4"]
        tale.nominate(two, None)
        assert promises(tale)[0] == "P2"


class TestWaiting:
    """P3, P4 and P6."""

    def test_gang_that_stays_partial(self, tale: Tale) -> None:
        """A gang with one member bound whose others wait is a violation after `settle` in quiet, not before."""
        tale.start(*tale.gang("g", 3), on="n")
        tale.delete("Pod", "g-0")
        tale.pod("g-0", "g")
        tale.wait(50)
        assert verdict(tale) == []
        tale.calm()
        tale.wait(4)
        assert verdict(tale) == []
        tale.wait(2)
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P3"]
        assert found[0].at == tale.quiet + 5.0 if tale.quiet is not None else False

    def test_partial_gang_without_members_to_run_is_right(self, tale: Tale) -> None:
        """A gang whose lost member nobody creates again cannot be made whole."""
        tale.start(*tale.gang("g", 3), on="n")
        tale.delete("Pod", "g-0")
        tale.calm()
        tale.wait(50)
        assert verdict(tale) == []

    def test_partial_since_a_death_is_p6(self, tale: Tale) -> None:
        """A gang that was being bound when Muster died has to be finished by its successor."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0")
        tale.arrive(two, "n1")
        tale.bind(one, "n0")
        tale.restart()
        tale.calm()
        tale.wait(6)
        assert promises(tale) == ["P6"]

    def test_recovery_in_time_is_right(self, tale: Tale) -> None:
        """What a successor finishes within `settle` breaks nothing."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0")
        tale.arrive(two, "n1")
        tale.bind(one, "n0")
        tale.restart()
        tale.calm()
        tale.wait(3)
        tale.arrive(two, "n1")
        tale.bind(two, "n1")
        tale.wait(60)
        assert verdict(tale) == []

    @pytest.mark.parametrize(("waited", "broken"), [(24.0, False), (26.0, True)])
    def test_nomination_that_outlives_its_reservation(self, tale: Tale, waited: float, broken: bool) -> None:
        """A nomination that stands beyond the reservation's time and `settle` keeps a node for nothing."""
        tale.calm()
        tale.group("g", 2)
        tale.pod("g-0", "g")
        tale.pod("g-1", "g")
        tale.nominate("g-0", "n0")
        for _ in range(2):
            tale.wait(waited / 2)
            tale.nominate("g-0", None)  # a nudge
            tale.nominate("g-0", "n0")
        assert ("P3" in promises(tale)) is broken

    def test_pod_group_says_how_long_it_may_wait(self, tale: Tale) -> None:
        """A PodGroup's scheduleTimeoutSeconds replaces the usual time."""
        tale.calm()
        tale.group("g", 2, timeout=100)
        tale.pod("g-0", "g")
        tale.pod("g-1", "g")
        tale.nominate("g-0", "n0")
        tale.wait(90)
        assert "P3" not in promises(tale)

    def test_gang_that_fits_and_waits(self, tale: Tale) -> None:
        """A gang that fits alone and waits at the end is a violation; one that does not fit is none."""
        tale.gang("g", 6)
        tale.gang("large", 7)
        tale.calm()
        tale.wait(4)
        assert verdict(tale) == []
        tale.wait(2)
        found = verdict(tale)
        assert [(violation.promise, "gang g of 6" in violation.text) for violation in found] == [("P4", True)]

    def test_gang_that_others_keep_out_waits_rightly(self, tale: Tale) -> None:
        """What another scheduler put on the nodes may stay there for ever."""
        for number in range(6):
            tale.pod(f"stranger-{number}", schedulerName="other", nodeName=f"n{number}", gpus=1)
        tale.gang("g", 2)
        tale.calm()
        tale.wait(50)
        assert verdict(tale) == []

    @pytest.mark.parametrize(
        "spec", [{"nodeSelector": {"zone": "none"}}, {"affinity": {"podAntiAffinity": {}}}, {"schedulingGates": [{}]}]
    )
    def test_gang_that_cannot_be_placed_waits_rightly(self, tale: Tale, spec: Json) -> None:
        """Selectors without a node, affinity, which is not judged, and gates keep a gang waiting."""
        tale.group("g", 1)
        tale.pod("g-0", "g", **spec)
        tale.calm()
        tale.wait(50)
        assert verdict(tale) == []

    def test_nothing_is_expected_without_quiet(self, tale: Tale) -> None:
        """Under faults nobody has to come to an end."""
        tale.gang("g", 2)
        tale.nominate("g-0", "n0")
        tale.wait(1000)
        assert verdict(tale) == []


class TestInheritance:
    """P5."""

    def test_binding_of_a_namesake(self, tale: Tale) -> None:
        """A pod created under the name of one that had arrived is bound only when it has arrived itself."""
        one, two = tale.gang("g", 2)
        tale.arrive(one, "n0")
        tale.arrive(two, "n1")
        tale.delete("Pod", one)
        tale.pod(one, "g")
        tale.bind(one, "n0")
        tale.bind(two, "n1")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P5"]
        assert "no bind call for its UID" in found[0].text
        assert len(found[0].evidence) >= 2

    def test_nomination_of_an_earlier_gang(self, tale: Tale) -> None:
        """A PodGroup created anew with a higher minMember has no nodes before its members exist."""
        tale.gang("g", 2)
        tale.delete("PodGroup", "g")
        tale.wait(5)
        tale.group("g", 3)
        tale.wait(5)
        tale.nominate("g-0", "n0")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P5"]
        assert "has 2 members of 3 needed" in found[0].text

    def test_nomination_without_pod_group(self, tale: Tale) -> None:
        """A gang whose PodGroup is gone is given nothing."""
        tale.gang("g", 2)
        tale.delete("PodGroup", "g")
        tale.wait(5)
        tale.nominate("g-0", "n0")
        assert promises(tale) == ["P5"]

    def test_pod_created_with_a_nomination(self, tale: Tale) -> None:
        """Nobody is born with a node in prospect."""
        tale.gang("g", 1)
        tale.nominate("g-0", "n0")
        first = tale.changes.pop()
        tale.changes[-1] = type(first)(first.at, first.version, "ADDED", first.object)
        assert promises(tale) == ["P5"]

    def test_nomination_of_a_gang_that_can_start_is_right(self, tale: Tale) -> None:
        """A gang with its members and its PodGroup may be given nodes."""
        for number, name in enumerate(tale.gang("g", 3)):
            tale.nominate(name, f"n{number}")
        assert verdict(tale) == []


class TestRestart:
    """P6, beyond what is partial."""

    def test_double_promise_after_a_death(self, tale: Tale) -> None:
        """What goes wrong right after a death of Muster is a failure to recover; later it is not."""
        for number, pause in enumerate((1.0, 20.0)):
            tale.pod(f"a{number}")
            tale.arrive(f"a{number}", f"n{number}")
            tale.bind(f"a{number}", f"n{number}")
            tale.restart()
            tale.wait(pause)
            tale.pod(f"b{number}")
            tale.arrive(f"b{number}", f"n{number}")
            tale.bind(f"b{number}", f"n{number}")
        assert promises(tale) == ["P2", "P6", "P2"]


class TestEvictions:
    """P7."""

    def test_gang_broken_by_preemption(self, tale: Tale) -> None:
        """A gang at its minimum loses nobody."""
        tale.start(*tale.gang("g", 3), on="n")
        tale.pod("urgent", priority=100)
        tale.wait(20)
        tale.preempt("g-0")
        tale.preempted_event("g-0", "urgent")
        tale.delete("Pod", "g-0")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P7"]
        assert "left gang g with 2 of 3" in found[0].text

    def test_spare_member_may_go(self, tale: Tale) -> None:
        """A gang with one member beyond its minimum may lose one, and not two."""
        tale.start(*tale.gang("g", 3, min_member=2), on="n")
        tale.pod("urgent", priority=100)
        tale.wait(20)
        tale.preempt("g-0")
        assert verdict(tale) == []
        tale.preempt("g-1")
        assert promises(tale) == ["P7"]

    @pytest.mark.parametrize("event", [True, False])
    def test_eviction_for_a_member(self, tale: Tale, event: bool) -> None:
        """Nobody is preempted for a member of a gang, whether an event says so or nobody else waits."""
        tale.pod("victim")
        tale.start("victim", on="n")
        tale.group("g", 1)
        tale.pod("g-0", "g", priority=100)
        tale.wait(20)
        tale.preempt("victim")
        if event:
            tale.preempted_event("victim", "g-0")
        assert promises(tale) == ["P7"]

    def test_eviction_for_a_single_pod_is_right(self, tale: Tale) -> None:
        """A pod without gang may preempt another, also while gangs wait."""
        tale.pod("victim")
        tale.start("victim", on="n")
        tale.group("g", 1)
        tale.pod("g-0", "g", priority=100)
        tale.pod("urgent", priority=100)
        tale.wait(20)
        tale.preempt("victim")
        assert verdict(tale) == []

    def test_other_schedulers_may_do_as_they_like(self, tale: Tale) -> None:
        """Muster is not asked when another scheduler preempts."""
        tale.start(*tale.gang("g", 2), on="n")
        tale.wait(20)
        tale.preempt("g-0", scheduler="default-scheduler")
        assert verdict(tale) == []


class TestOwnEvictions:
    """P7, where Muster evicts."""

    def gang(self, tale: Tale, name: str, members: int, priority: int, queue: str = "", **more: object) -> list[str]:
        """Create a gang of a priority in a queue."""
        tale.group(name, members - int(str(more.get("spare", 0))))
        names = [f"{name}-{number}" for number in range(members)]
        for pod in names:
            tale.pod(pod, name, labels={"muster.dev/queue": queue} if queue else {}, priority=priority)
        return names

    def test_whole_gang_leaves_for_another_that_starts(self, tale: Tale) -> None:
        """A gang of lower priority that goes whole for one that starts breaks nothing."""
        low = self.gang(tale, "low", 3, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        high = self.gang(tale, "high", 3, 10)
        for pod in low:
            tale.evict(pod, "high")
        tale.wait(3)
        tale.start(*high, on="n")
        tale.wait(100)
        assert verdict(tale) == []

    def test_gang_that_is_evicted_in_part(self, tale: Tale) -> None:
        """Whoever loses its minimum to an eviction keeps nobody."""
        low = self.gang(tale, "low", 3, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        high = self.gang(tale, "high", 1, 10)
        tale.evict("low-0", "high")
        tale.wait(3)
        tale.start(*high, on="n")
        tale.wait(100)
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P7"]
        assert "low-1, low-2 stayed" in found[0].text

    def test_a_member_on_a_node_that_does_not_answer_may_go_alone(self, tale: Tale) -> None:
        """It was lost before, and the others stay for what comes in its stead."""
        low = self.gang(tale, "low", 3, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        tale.node("n0", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}])
        tale.wait(30)
        tale.evict("low-0")
        tale.wait(100)
        assert verdict(tale) == []

    def test_members_beyond_the_minimum_may_go_alone(self, tale: Tale) -> None:
        """A gang that keeps its minimum may lose the others."""
        low = self.gang(tale, "low", 3, 0, spare=1)
        tale.start(*low, on="n")
        tale.wait(30)
        self.gang(tale, "high", 1, 10)
        tale.evict("low-2", "high")
        tale.wait(3)
        tale.arrive("high-0", "n2")
        tale.bind("high-0", "n2")
        tale.wait(100)
        assert verdict(tale) == []

    @pytest.mark.parametrize(("seconds", "right"), [(0.3, True), (30, False)])
    def test_a_minimum_that_was_raised_just_before(self, tale: Tale, seconds: float, right: bool) -> None:
        """Who decides may not have heard of it yet, and takes members that were beyond the former one."""
        low = self.gang(tale, "low", 3, 0, spare=1)
        tale.start(*low, on="n")
        tale.wait(30)
        (high,) = self.gang(tale, "high", 1, 10)
        tale.group("low", 3)
        tale.wait(seconds)
        tale.evict("low-2", "high")
        tale.wait(3)
        tale.arrive(high, "n2")
        tale.bind(high, "n2")
        tale.wait(100)
        assert promises(tale) == ([] if right else ["P7"])

    def test_refused_eviction_excuses_what_is_left(self, tale: Tale) -> None:
        """Where the API server refused to evict the rest, nobody meant to evict in part."""
        low = self.gang(tale, "low", 2, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        tale.evict("low-0")
        tale.hindrances.append((tale.now, tale.now))
        tale.wait(100)
        assert verdict(tale) == []

    def test_gang_that_others_left_for_does_not_start(self, tale: Tale) -> None:
        """Nobody is evicted for a gang that does not start then."""
        low = self.gang(tale, "low", 1, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        self.gang(tale, "high", 1, 10)
        tale.evict("low-0", "high")
        tale.wait(100)
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P7"]
        assert "had not started" in found[0].text

    @pytest.mark.parametrize(("after", "says"), [(60, 0.0), (8, 0.1)], ids=["just-before-it", "just-after-it"])
    def test_what_was_said_long_before_an_eviction_does_not_count(self, tale: Tale, after: float, says: float) -> None:
        """Muster dies, or the gang goes, before a pod leaves for it; later it leaves for another, and that is said."""
        low = self.gang(tale, "low", 1, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        self.gang(tale, "early", 1, 10)
        (high,) = self.gang(tale, "high", 1, 10)
        tale.say_evicted("low-0", "early")
        tale.wait(after)
        tale.evict("low-0", "high", says=says)
        tale.wait(1)
        tale.start(high, on="n")
        tale.wait(100)
        assert "P7" not in promises(tale)

    def test_others_are_evicted_for_the_same_gang(self, tale: Tale) -> None:
        """Those that left for a gang were enough; others need not go for it, too."""
        for node, name in enumerate(("low", "more")):
            (pod,) = self.gang(tale, name, 1, 0)
            tale.arrive(pod, f"n{node}")
            tale.bind(pod, f"n{node}")
        tale.wait(30)
        high = self.gang(tale, "high", 1, 10)
        tale.evict("low-0", "high")
        tale.wait(10)
        tale.evict("more-0", "high")
        tale.wait(1)
        tale.start(*high, on="n")
        found = verdict(tale)
        assert [violation.promise for violation in found] == ["P7"]
        assert "and others after it" in found[0].text

    @pytest.mark.parametrize("again", [False, True])
    def test_who_restricts_its_nodes_may_be_refused_once(self, tale: Tale, again: bool) -> None:
        """kube-scheduler says so once others have left, and then nobody else leaves for it."""
        for node, name in enumerate(("low", "more")):
            (pod,) = self.gang(tale, name, 1, 0)
            tale.arrive(pod, f"n{node}")
            tale.bind(pod, f"n{node}")
        tale.wait(30)
        tale.group("high", 1)
        tale.pod("high-0", "high", priority=10, topologySpreadConstraints=[{"maxSkew": 1}])
        tale.wait(30)
        tale.evict("low-0", "high")
        tale.wait(10)
        if again:
            tale.evict("more-0", "high")
        tale.wait(100)
        assert promises(tale) == (["P7"] if again else [])

    @pytest.mark.parametrize("what", ["node", "foreign", "restart", "refusal", "member"])
    def test_something_else_came_between(self, tale: Tale, what: str) -> None:
        """Where the place that was cleared was lost to others, nobody is to blame."""
        low = self.gang(tale, "low", 1, 0)
        tale.start(*low, on="n")
        tale.wait(30)
        self.gang(tale, "high", 1, 10)
        tale.evict("low-0", "high")
        tale.wait(1)
        if what == "node":
            tale.node("n0", gpus=4)
        elif what == "foreign":
            tale.pod("other", schedulerName="default-scheduler", nodeName="n0")
        elif what == "restart":
            tale.restart()
        elif what == "refusal":
            tale.hindrances.append((tale.now, tale.now))
        else:
            tale.delete("Pod", "high-0")
        tale.wait(100)
        assert verdict(tale) == []

    @pytest.mark.parametrize(("own", "other", "right"), [(10, 0, True), (10, 10, False), (0, 10, False)])
    def test_rank_in_the_same_queue(self, tale: Tale, own: int, other: int, right: bool) -> None:
        """In one queue only a lower priority has to leave."""
        tale.queue("red", 48)
        tale.start(*self.gang(tale, "low", 1, other, "red"), on="n")
        tale.wait(30)
        high = self.gang(tale, "high", 1, own, "red")
        tale.evict("low-0", "high")
        tale.start(*high, on="n")
        assert promises(tale) == ([] if right else ["P7"])

    def test_equal_priority_where_the_queue_says_so(self, tale: Tale) -> None:
        """A queue may have newer gangs of equal priority evicted."""
        tale.queue("red", 48, preemption={"withinQueue": "LowerOrNewerEqualPriority"})
        tale.start(*self.gang(tale, "low", 1, 10, "red"), on="n")
        tale.wait(30)
        high = self.gang(tale, "high", 1, 10, "red")
        tale.evict("low-0", "high")
        tale.start(*high, on="n")
        assert verdict(tale) == []

    @pytest.mark.parametrize(("nominal", "right"), [(8, False), (4, True)])
    def test_quota_is_taken_from_borrowers(self, tale: Tale, nominal: int, right: bool) -> None:
        """Another queue has to give back what it has borrowed, and nothing else."""
        tale.queue("red", nominal)
        tale.queue("blue", 40)
        tale.start(*self.gang(tale, "low", 1, 100, "red"), on="n")
        tale.wait(30)
        high = self.gang(tale, "high", 1, 0, "blue")
        tale.evict("low-0", "high", "Reclaimed")
        tale.start(*high, on="n")
        assert promises(tale) == ([] if right else ["P7"])


class TestQuota:
    """Quota."""

    def pods(self, tale: Tale, queue: str, count: int) -> None:
        """Create pods of eight GPUs in a queue, and let them be bound."""
        names = [f"{queue}-{number}" for number in range(count)]
        for name in names:
            tale.pod(name, labels={"muster.dev/queue": queue})
        tale.start(*names, on="n")

    @pytest.mark.parametrize(("nominal", "limits", "promised"), [(16, {}, []), (8, {}, []), (0, {}, ["quota"])])
    def test_cohort_has_no_more(self, tale: Tale, nominal: int, limits: Json, promised: list[str]) -> None:
        """What is bound stays within what the queue has and may borrow."""
        tale.queue("red", nominal, limits=limits)
        tale.queue("blue", 8)
        self.pods(tale, "red", 2)
        assert promises(tale) == promised

    @pytest.mark.parametrize(("name", "limits"), [("red", {"borrowingLimit": "4"}), ("blue", {"lendingLimit": "4"})])
    def test_limits(self, tale: Tale, name: str, limits: Json) -> None:
        """Nobody borrows more than its limit, or than others lend."""
        for each in ("red", "blue"):
            tale.queue(each, 8, limits=limits if each == name else {})
        self.pods(tale, "red", 2)
        assert promises(tale) == ["quota"]

    @pytest.mark.parametrize(("limits", "promised"), [({"lendingLimit": "0"}, []), ({}, ["quota"])])
    def test_what_is_not_lent_is_there_whatever_others_use(self, tale: Tale, limits: Json, promised: list[str]) -> None:
        """A pod that no scheduler was asked about uses more than there is; a queue that lends nothing has its own."""
        tale.queue("red", 8)
        tale.queue("blue", 8, limits=limits)
        tale.pod("absurd", labels={"muster.dev/queue": "red"}, nodeName="n9")
        tale.pod("other", labels={"muster.dev/queue": "red"}, nodeName="n9")
        tale.wait(30)
        self.pods(tale, "blue", 1)
        assert promises(tale) == promised

    def test_what_was_put_on_a_node_just_before(self, tale: Tale) -> None:
        """What others put on nodes after the place was promised could not be known."""
        tale.queue("red", 8)
        tale.wait(30)
        tale.pod("planted", labels={"muster.dev/queue": "red"}, nodeName="n9")
        self.pods(tale, "red", 1)
        assert verdict(tale) == []

    @pytest.mark.parametrize("gone", [True, False])
    def test_what_is_left_of_a_node_that_is_gone_counts_no_more(self, tale: Tale, *, gone: bool) -> None:
        """Pods whose node was deleted use nothing, though they still exist."""
        tale.queue("red", 8)
        self.pods(tale, "red", 1)
        if gone:
            tale.delete("Node", "n0")
        tale.wait(30)
        tale.pod("next", labels={"muster.dev/queue": "red"})
        tale.arrive("next", "n1")
        tale.bind("next", "n1")
        assert promises(tale) == ([] if gone else ["quota"])

    @pytest.mark.parametrize("parent", ["nowhere", "red"])
    def test_queue_that_cannot_be_used(self, tale: Tale, parent: str) -> None:
        """Nobody is bound in a queue without its parent, or in a circle of them."""
        tale.queue("red", 48, parent=parent)
        self.pods(tale, "red", 1)
        assert promises(tale) == ["quota"]

    def test_what_the_queue_said_just_before(self, tale: Tale) -> None:
        """Quota that was taken away after the place was promised could not be known to be gone."""
        tale.queue("red", 8)
        tale.wait(50)
        tale.queue("red", 0)
        tale.wait(10)
        self.pods(tale, "red", 1)
        assert verdict(tale) == []

    def test_flavors_of_some_nodes_are_an_error(self, tale: Tale) -> None:
        """What the judge's model does not know is refused rather than judged in part."""
        tale.queue("red", 8, flavors=[{"name": "spot", "nodeSelector": {"spot": "yes"}, "resources": []}])
        with pytest.raises(ValueError, match="flavors with a nodeSelector are not judged"):
            verdict(tale)


def test_unknown_kind_is_an_error(tale: Tale) -> None:
    """A history with objects that the judge cannot read is refused, rather than judged in part."""
    tale.changes[0].object["kind"] = "Deployment"
    with pytest.raises(ValueError, match="this kind is not judged"):
        verdict(tale)


def test_versions_order_a_history(tale: Tale) -> None:
    """Changes of several watches may be handed over in any order."""
    tale.start(*tale.gang("g", 3), on="n")
    tale.changes.reverse()
    assert verdict(tale) == []
