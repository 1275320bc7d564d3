"""What one user, and one group, may run in a Queue at a time."""

from __future__ import annotations

from extender.admission.events import PodSeen
from extender.cluster.gangs import Gang
from extender.explain.documents import PayerUse
from extender.explain.inquiry import inquire
from extender.explain.views import queue_reports
from extender.objects.keys import GROUP, USER, Options
from extender.objects.podgroup import GroupRef
from extender.objects.queue import PreemptionPolicy, QueueingStrategy, RunningLimit
from extender.objects.reason import Reason
from extender.objects.sources.table import LABEL
from extender.queues.charges import Charges
from tests.eviction.test_preemptions import evicted
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World


def of(
    world: World,
    name: str,
    user: str,
    *,
    members: int = 1,
    gpus: int = 8,
    group: str = "",
    to: str = "team",
    priority: int = 0,
) -> Job:
    """Create a gang of a user in a Queue."""
    labels = {USER: user} | ({GROUP: group} if group else {})
    return world.gang(name, members, gpus, options=Options(queue=to), labels=labels, priority=priority)


def test_a_user_runs_so_many_gpus_and_others_go_on(world: World) -> None:
    """The next gang waits with the numbers, holds up nobody, also in a strict queue, and starts when there is room."""
    world.nodes(6)
    strict = QueueingStrategy.STRICT_FIFO
    tell(world, queue("team", 48, limits=(RunningLimit(USER, gpus=16),), strategy=strict))
    first = of(world, "first", "jane", members=2)
    first.run()
    second, other = of(world, "second", "jane"), of(world, "other", "ali", members=2)
    assert len(other.reserved) == 2
    assert second.wait is not None
    assert second.wait.reason is Reason.RUNNING_LIMIT
    assert second.wait.numbers == {"running": 16, "most": 16, "wanted": 8}
    text = "user jane may run 16 GPUs at a time in Queue team: 16 run, and this asks for 8 more"
    assert second.wait.message == text
    first.finish()
    world.judge()
    assert second.reserved


def test_gangs_count_once_however_many_pods_they_have(world: World) -> None:
    """One that runs may grow; a limit of a parent is for all Queues below it together."""
    world.nodes(6)
    limit = RunningLimit(USER, gangs=1)
    tell(world, queue("all", 48, limits=(limit,)), queue("team", parent="all"), queue("other", parent="all"))
    first = of(world, "first", "jane", members=2)
    first.run()
    second = of(world, "second", "jane", to="other")
    assert second.wait is not None
    assert second.wait.message == "user jane may run 1 gangs at a time in Queue all: 1 run, and this asks for 1 more"
    first.pods.append(world.pod("first-2", 8, group=first.ref, labels={USER: "jane"}, options=Options(queue="team")))
    world.tell(PodSeen(first.pods[-1]))
    world.judge()
    assert "first-2" in first.reserved


def test_members_beyond_the_minimum_come_as_far_as_the_limit_goes(world: World) -> None:
    """They are placed one by one, and none too many."""
    world.nodes(4)
    tell(world, queue("team", 32, limits=(RunningLimit(USER, gpus=16),)))
    labels = {USER: "jane"}
    job = world.gang("job", 4, min_member=1, options=Options(queue="team"), labels=labels)
    assert len(job.reserved) == 2


def test_a_group_has_a_limit_of_its_own(world: World) -> None:
    """Whoever of it runs what."""
    world.nodes(4)
    tell(world, queue("team", 32, limits=(RunningLimit(USER, gpus=16), RunningLimit(GROUP, gpus=16))))
    of(world, "first", "jane", members=2, group="ml").run()
    second = of(world, "second", "ali", group="ml")
    assert second.wait is not None
    assert second.wait.message.startswith("group ml may run 16 GPUs")
    assert of(world, "third", "ali", group="hpc").reserved


def test_pods_that_name_no_user_are_one_users_together(world: World) -> None:
    """Else a limit would end where the label is left out."""
    world.nodes(4)
    tell(world, queue("team", 32, limits=(RunningLimit(USER, gangs=1),)))
    world.gang("first", 1, options=Options(queue="team")).run()
    second = world.gang("second", 1, options=Options(queue="team"))
    assert second.wait is not None
    assert second.wait.message.startswith("all without a label muster.dev/user together may run 1 gangs")


def test_nobody_is_evicted_for_more_than_a_user_may_run(world: World) -> None:
    """Nor for a second gang while others leave for the first."""
    world.nodes(2)
    tell(world, queue("team", 16, limits=(RunningLimit(USER, gpus=8),), preemption=PreemptionPolicy()))
    of(world, "low", "ali", priority=1).run()
    of(world, "lower", "bo", priority=1).run()
    world.effects()
    first = of(world, "first", "jane", priority=5)
    second = of(world, "second", "jane", priority=5)
    assert first.reason is Reason.PREEMPTING
    assert second.reason is Reason.RUNNING_LIMIT
    assert [len(names) for names in evicted(world).values()] == [1]
    third = of(world, "third", "jane", gpus=16, priority=5)
    assert third.reason is Reason.RUNNING_LIMIT
    world.judge()
    assert not evicted(world)
    assert first.reason is Reason.PREEMPTING


def test_a_limit_that_is_raised_lets_them_start(world: World) -> None:
    """As soon as the Queue says so."""
    world.nodes(2)
    tell(world, queue("team", 16, limits=(RunningLimit(USER, gangs=1),)))
    of(world, "first", "jane").run()
    second = of(world, "second", "jane")
    assert second.reason is Reason.RUNNING_LIMIT
    tell(world, queue("team", 16, limits=(RunningLimit(USER, gangs=2),)))
    assert second.reserved


def test_what_is_only_thought_of_is_judged_by_it_too(world: World) -> None:
    """A question about a gang that is not there, on a copy of the Queues."""
    world.nodes(4)
    tell(world, queue("team", 32, limits=(RunningLimit(USER, gpus=16),)))
    of(world, "first", "jane", members=2).run()
    ref = GroupRef(LABEL, "default", "new")
    pod = world.pod("new", 8, group=ref, labels={USER: "jane"}, options=Options(queue="team", min_member=1))
    asked = inquire(world.admission, Gang(ref, "new", 0.0, None, {pod.uid: pod}), world.now)
    assert asked.case.obstacle is not None
    assert asked.case.obstacle.reason is Reason.RUNNING_LIMIT


def test_what_runs_is_counted_the_same_however_it_came(world: World) -> None:
    """Pods one by one, all at once, and on a copy."""
    world.nodes(8)
    tell(world, queue("all", 64), queue("team", parent="all"))
    for number, user in enumerate(["jane", "ali", "jane"]):
        of(world, f"gang-{number}", user, members=2, group="ml")
    model, sharing = world.admission.model, world.admission.sharing
    other = Charges(model, sharing.queue_of_pod)
    other.tree.put(queue("all", 64))
    other.tree.put(queue("team", parent="all"))
    other.look_at(model.pods)
    for charges in (sharing.charges, other, sharing.snapshot("team").charges):
        assert charges.running((USER, "jane"), "all")[0] == 32
        assert len(charges.running((USER, "jane"), "team")[1]) == 2
        assert charges.running((GROUP, "ml"), "all")[0] == 48
        assert charges.running((USER, "bo"), "all") == (0, set())
    other.look_at_queues(["team"])
    assert other.running((USER, "ali"), "team")[0] == 16


def test_what_each_runs_is_told_of_the_queue_that_limits_it(world: World) -> None:
    """Users and groups of it and those below it, most first, those without a label together; of no other Queue."""
    world.nodes(8)
    limits = RunningLimit(USER, gpus=48), RunningLimit(GROUP, gangs=4)
    tell(world, queue("all", 64, limits=limits), queue("team", parent="all"), queue("other", parent="all"))
    of(world, "small", "jane", group="ml").run()
    of(world, "large", "ali", members=2, group="ml", to="other").run()
    world.gang("nameless", 1, 8, options=Options(queue="team"))
    world.judge()
    reports = {report.name: report.row.running for report in queue_reports(world.admission)}
    assert reports["all"] == (
        PayerUse("user", "ali", gpus=16, gangs=1, most_gpus=48, most_gangs=None),
        PayerUse("user", "", gpus=8, gangs=1, most_gpus=48, most_gangs=None),
        PayerUse("user", "jane", gpus=8, gangs=1, most_gpus=48, most_gangs=None),
        PayerUse("group", "ml", gpus=24, gangs=2, most_gpus=None, most_gangs=4),
        PayerUse("group", "", gpus=8, gangs=1, most_gpus=None, most_gangs=4),
    )
    assert reports["team"] == reports["other"] == ()


def test_only_those_that_run_most_are_told(world: World) -> None:
    """The status of a Queue stays small, however many users there are."""
    world.nodes(3)
    tell(world, queue("team", 24, limits=(RunningLimit(USER, gpus=8),)))
    for place in range(21):
        of(world, f"gang-{place}", f"user-{place}", gpus=1 + (place > 19)).run()
    (report,) = queue_reports(world.admission)
    assert len(report.row.running) == 20
    assert (report.row.running[0].name, report.row.running[0].gpus) == ("user-20", 2)
