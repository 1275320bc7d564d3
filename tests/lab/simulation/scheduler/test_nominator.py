"""Who is nominated where."""

from __future__ import annotations

from dataclasses import replace

from extender.objects.pod import Pod
from muster_lab.simulation.scheduler.nominator import Nominator
from tests.builders import pod

KNOWN = {name: pod(name) for name in "ab"}


def nominator() -> Nominator:
    """Return one that knows two unscheduled pods."""
    return Nominator(lambda asked: KNOWN.get(asked.name))


def test_a_pod_is_nominated_to_one_node() -> None:
    """A new nomination takes the place of the old one; an empty one takes it away."""
    memory = nominator()
    memory.nominate(KNOWN["a"], "n")
    memory.nominate(KNOWN["b"], "n")
    assert memory.on("n") == [KNOWN["a"], KNOWN["b"]]
    memory.nominate(KNOWN["a"], "m")
    assert (memory.on("n"), memory.on("m")) == ([KNOWN["b"]], [KNOWN["a"]])
    memory.nominate(KNOWN["a"], "")
    assert not memory.knows("uid-a")
    assert memory.nodes() == ["n"]
    memory.forget("uid-b")
    memory.forget("uid-b")
    assert memory.nodes() == []


def test_pods_that_are_gone_or_bound_are_not_nominated() -> None:
    """The newest version decides."""
    bound = replace(KNOWN["a"], node_name="n")
    versions: dict[str, Pod] = {"a": bound}
    memory = Nominator(lambda asked: versions.get(asked.name))
    memory.nominate(KNOWN["a"], "n")
    memory.nominate(KNOWN["b"], "n")
    assert memory.nodes() == []


def test_an_update_that_says_nothing_keeps_a_nomination_made_in_memory() -> None:
    """The API server may not have heard of it yet; what it does say counts."""
    memory = nominator()
    before = KNOWN["a"]
    memory.nominate(before, "n")
    memory.update(before, replace(before, refusal="x"))
    assert [found.refusal for found in memory.on("n")] == ["x"]
    set_by_others = replace(before, nominated_node="m")
    memory.update(before, set_by_others)
    assert (memory.on("n"), memory.on("m")) == ([], [set_by_others])
    memory.update(set_by_others, before)
    assert not memory.knows(before.uid)


def test_every_change_shows_in_the_revision() -> None:
    """Whoever keeps answers sees that they are out of date."""
    memory = nominator()
    seen = [memory.revision]
    memory.nominate(KNOWN["a"], "n")
    seen.append(memory.revision)
    memory.forget("uid-a")
    seen.append(memory.revision)
    assert seen == sorted(set(seen))
