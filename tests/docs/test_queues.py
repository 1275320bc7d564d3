"""docs/queues.md against the program: output, fields, defaults, annotations, manifests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import yaml

from extender.objects.keys import SHARING_KEYS, read_options
from extender.objects.meta import LabelSelectorObject
from extender.objects.queue import ConsolidationPolicy, ConsolidationTrigger, Queue, QueueObject, QueueSpec, read_queue
from extender.queues.tree import QueueTree
from tests.builders import written
from tests.docs import queues_page
from tests.docs.conftest import PAGES, ROOT, Page

_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)
_EXAMPLE = re.compile(r"^\| `(muster\.dev/[^`]+)` \| `([^`]+)` \|", re.MULTILINE)


@pytest.fixture
def queues(page: Callable[[str], Page]) -> Page:
    """Return the page about queues."""
    return page("docs/queues.md")


@pytest.mark.parametrize("mark", queues_page.PARTS)
def test_the_page_shows_what_the_program_says(queues: Page, mark: str) -> None:
    """Tables and output are what the code makes of them; `python -m tests.docs.queues_page` prints them anew."""
    assert queues_page.PARTS[mark]() in queues.text


def test_the_manifests_of_the_walk_are_those_of_the_scenario() -> None:
    """What people apply is what is played: names, parents and quotas are the same."""
    written_down = _quotas(yaml.safe_load_all((queues_page.QUEUES / "two-teams.yaml").read_text(encoding="utf-8")))
    scenario = yaml.safe_load(queues_page.SCENARIO.read_text(encoding="utf-8"))
    played = _quotas({"metadata": {"name": one.pop("name")}, "spec": one} for one in scenario["queues"])
    assert written_down == played


def _quotas(documents: Iterator[dict[str, Any]]) -> dict[str, tuple[str, object]]:
    read = [read_queue(msgspec.json.decode(written(document), type=QueueObject)) for document in documents]
    return {queue.name: (queue.parent, queue.flavors) for queue in read}


def test_the_table_has_every_field_of_the_spec(queues: Page) -> None:
    """By path, `[]` for the items of a list; the required ones say so."""
    rows = dict(_ROW.findall(queues.sections["The Queue"]))
    fields = set(_paths(QueueSpec, ""))
    parts = ("borrowWithinCohort", "fairSharing", "consolidation")
    containers = {"flavors[].resources", "preemption", "perUser", "perGroup", *(f"preemption.{part}" for part in parts)}
    assert rows.keys() - {"flavors[].resources[]", "share", "pendingGangs", "running", "history", "conditions"} == (
        fields - containers
    )
    crd = yaml.safe_load((ROOT / "manifests" / "queue-crd.yaml").read_text(encoding="utf-8"))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    flavor = spec["properties"]["flavors"]["items"]
    required = {f"flavors[].{name}" for name in flavor["required"]}
    required |= {f"flavors[].resources[].{name}" for name in flavor["properties"]["resources"]["items"]["required"]}
    assert {name for name, default in rows.items() if default == "required"} == required


def _paths(kind: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of a struct's fields and of those below them."""
    for field in msgspec.structs.fields(kind):
        inner = [each for each in _alternatives(field.type) if isinstance(each, type)]
        listed = "[]" if "list[" in str(field.type) else ""
        yield f"{prefix}{field.encode_name}"
        for each in inner:
            if issubclass(each, msgspec.Struct) and each is not LabelSelectorObject:
                yield from _paths(each, f"{prefix}{field.encode_name}{listed}.")


def _alternatives(kind: Any) -> Iterator[Any]:
    yield kind
    for inner in getattr(kind, "__args__", ()):
        yield from _alternatives(inner)


MOVES = ConsolidationPolicy()


def test_the_defaults_are_those_of_the_code(queues: Page) -> None:
    """A Queue that says nothing has what the table says."""
    rows = dict(_ROW.findall(queues.sections["The Queue"]))
    queue = Queue("q")
    told = {
        "weight": f"{queue.weight:g}",
        "priority": str(queue.priority),
        "default": str(queue.default).lower(),
        "queueingStrategy": queue.strategy,
        "preemption.withinQueue": queue.preemption.within_queue,
        "preemption.reclaimWithinCohort": queue.preemption.reclaim_within_cohort,
        "preemption.borrowWithinCohort.policy": queue.preemption.borrow_within_cohort,
        "preemption.fairSharing.strategy": queue.preemption.fair_sharing,
        "preemption.fairSharing.delay": f"{queue.preemption.fair_sharing_delay:g}s",
        "preemption.consolidation.policy": ConsolidationTrigger.NEVER,
        "preemption.consolidation.delay": f"{MOVES.delay:g}s",
        "preemption.consolidation.coolDown": f"{MOVES.cool_down:g}s",
        "preemption.consolidation.maxEvictionsPerHour": str(MOVES.evictions),
        "preemption.consolidation.maxLostGPUHoursPerHour": f"{MOVES.lost_gpu_hours:g}",
        "preemption.nonPreemptible": queue.preemption.non_preemptible,
        "preemption.minRuntime": f"{queue.preemption.min_runtime:g}s",
        "preemption.grace": f"{queue.preemption.grace:g}s",
        "stopPolicy": queue.stop_policy,
    }
    assert {name: rows[name] for name in told} == {name: f"`{value}`" for name, value in told.items()}


def test_every_annotation_about_sharing_is_shown_with_a_value_that_can_be_used(queues: Page) -> None:
    """The table has all of them, each with an example."""
    rows = dict(_EXAMPLE.findall(queues.text))
    assert rows.keys() == SHARING_KEYS
    examples = dict(yaml.safe_load(example).popitem() for example in rows.values())
    assert examples.keys() == rows.keys()
    assert read_options({}, examples).problems == ()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_queues_on_the_pages_are_sound(page: Page) -> None:
    """Every manifest of a Queue that is shown, printed ones included, can be applied as it stands."""
    for queue in _shown(page):
        assert queue.name
        assert queue.problems == ()


def _shown(page: Page) -> Iterator[Queue]:
    for block in page.blocks:
        text = block.text
        if "apiVersion: muster.dev/v1alpha1" not in text:
            continue
        for document in text.split("---\n"):
            manifest = re.search(
                r"^apiVersion: muster\.dev/v1alpha1\n(?:.+\n)*?(?=^\S+ \S+: |\Z)", document, re.MULTILINE
            )
            if manifest is not None and "kind: Queue" in manifest[0]:
                yield read_queue(msgspec.json.decode(written(yaml.safe_load(manifest[0])), type=QueueObject))


def test_the_page_shows_queues(queues: Page) -> None:
    """The test above does find them: two by hand, five printed by imports."""
    assert [queue.name for queue in _shown(queues)] == [
        "team-a",
        "team-a",
        "research",
        "team-a",
        "root",
        "team-a",
        "default",
    ]


def test_the_example_of_two_teams_makes_one_tree() -> None:
    """The manifests can be applied together: nothing is wrong between them either."""
    documents = yaml.safe_load_all((queues_page.QUEUES / "two-teams.yaml").read_text(encoding="utf-8"))
    read = [read_queue(msgspec.json.decode(written(document), type=QueueObject)) for document in documents]
    tree = QueueTree(read)
    assert tree.problems == {}
    assert tree.path("team-a") == ("team-a", "research")
