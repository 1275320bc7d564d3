"""What an eviction costs a gang is what it has done since its last checkpoint, as far as it says when that was."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.objects.jobsigns import CLOCK_SKEW, LAST_CHECKPOINT, JobSigns, NoticePeriod, read_signs
from extender.objects.keys import NO_OPTIONS, Options
from tests.eviction.test_preemptions import evicted, running
from tests.worlds import Job, World

HOUR = 3600.0


def runs(world: World, name: str, seconds: float, saved: float | None, *, on_group: bool = False) -> Job:
    """Return a gang on a node of its own that has run for some time, and saved its work so many seconds ago."""
    world.nodes(1, prefix=name)
    job = running(world, name, 1, priority=1)
    checkpoint = JobSigns(last_checkpoint=None if saved is None else world.now - saved)
    if on_group:
        world.group(job.ref, 1, options=Options(signs=checkpoint))
    signs = JobSigns() if on_group else checkpoint
    job.see(0, started_at=world.now - seconds, signs=signs)
    world.judge()
    world.effects()
    return job


def who_leaves(world: World) -> set[str]:
    """Return whose pods leave for a gang that needs one of the nodes."""
    world.gang("high", 1, priority=5)
    return {name.rpartition("-")[0] for names in evicted(world).values() for name in names}


class TestCost:
    """Of gangs of one priority those leave that lose the least."""

    def test_who_has_just_saved_its_work_leaves_first(self, world: World) -> None:
        """Though it has run for days, and the other for an hour."""
        world.clock.advance(100 * HOUR)
        runs(world, "short", HOUR, None)
        runs(world, "long", 90 * HOUR, 60.0)
        assert who_leaves(world) == {"long"}

    def test_the_podgroup_can_say_it(self, world: World) -> None:
        """As the pods can."""
        world.clock.advance(100 * HOUR)
        runs(world, "short", HOUR, None)
        runs(world, "long", 90 * HOUR, 60.0, on_group=True)
        assert who_leaves(world) == {"long"}

    def test_what_was_saved_by_an_earlier_run_is_no_loss_of_this_one(self, world: World) -> None:
        """No more is lost than since it started."""
        world.clock.advance(100 * HOUR)
        runs(world, "again", 60.0, 50 * HOUR)
        runs(world, "other", HOUR, None)
        assert who_leaves(world) == {"again"}

    def test_who_has_notice_already_leaves_before_others(self, world: World) -> None:
        """The choice stays what it was: the other may cost less by now."""
        world.clock.advance(100 * HOUR)
        told = runs(world, "told", 50 * HOUR, None)
        runs(world, "other", HOUR, None)
        told.see(0, signs=JobSigns(planned=NoticePeriod(world.now - 10, world.now - 5)))
        assert who_leaves(world) == {"told"}

    @given(
        ages=st.lists(
            st.tuples(st.integers(1, 50), st.none() | st.integers(-50, 60), st.none() | st.integers(1, 60)),
            min_size=2,
            max_size=5,
        )
    )
    def test_the_least_lost_is_chosen(self, ages: list[tuple[int, int | None, int | None]]) -> None:
        """Whatever they have run, saved, and say of intervals; a checkpoint in the future counts as none."""
        world = World()
        world.clock.advance(100 * HOUR)
        losses = {}
        for number, (hours, saved, interval) in enumerate(ages):
            job = runs(world, f"job{number}", hours * HOUR, None if saved is None else saved * HOUR)
            options = replace(NO_OPTIONS, checkpoint_interval=None if interval is None else interval * HOUR)
            job.see(0, options=options)
            known = [hours, interval, saved if saved is not None and saved >= 0 else None]
            losses[f"job{number}"] = min(each for each in known if each is not None)
        world.judge()
        world.effects()
        (leaves,) = who_leaves(world)
        assert losses[leaves] == min(losses.values())


class TestProblems:
    """A time that cannot be right."""

    def test_a_future_time_is_a_warning_and_does_not_count(self, world: World) -> None:
        """Of a pod and of a PodGroup; it names object and field, once."""
        world.clock.advance(100 * HOUR)
        job = runs(world, "job", HOUR, None)
        runs(world, "other", HOUR / 2, None)
        ahead = JobSigns(last_checkpoint=world.now + CLOCK_SKEW + 1)
        for _ in range(2):
            job.see(0, signs=ahead)
        world.group(job.ref, 1, options=Options(signs=ahead))
        found = [note for note in world.effects().notes if note.reason == "InvalidField"]
        assert [note.about for note in found] == [job.pods[0], job.ref]
        assert {note.warning for note in found} == {True}
        assert {note.message.partition(",")[0] for note in found} == {
            f"metadata.annotations[{LAST_CHECKPOINT}]: is in the future"
        }
        assert who_leaves(world) == {"other"}

    def test_a_malformed_time_is_a_warning(self, world: World) -> None:
        """As any value that cannot be used."""
        problems = read_signs({LAST_CHECKPOINT: "noon"}).problems
        pod = world.pod("pod", 1, options=Options(problems=problems))
        job = running(world, "job", 1) if world.nodes(1) else None
        assert job is not None
        world.effects()
        job.see(0, options=pod.options)
        (note,) = (note for note in world.effects().notes if note.reason == "InvalidField")
        assert note.message.startswith(f"metadata.annotations[{LAST_CHECKPOINT}]")
