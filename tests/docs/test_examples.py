"""The YAML in the pages and in examples/: what claims to be a PodGroup or a pod is one, sound, and beside its gang."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from extender.objects.pod import Pod, read_pod
from extender.objects.podgroup import POD, PodGroup
from extender.objects.podspec import decode_pod
from extender.objects.sources.coscheduling import decode_coscheduling_pod_group, read_coscheduling
from extender.objects.sources.disaggregatedset import DISAGGREGATED_SET
from extender.objects.sources.grove import GROVE
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kai import KAI
from extender.objects.sources.kubeflow import KUBEFLOW
from extender.objects.sources.kueue import KUEUE
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.native import COMPOSITE, NATIVE, decode_native_pod_group, read_native
from extender.objects.sources.ray import RAY, RAY_JOB
from extender.objects.sources.table import JOB, LABEL, SOURCE_OF
from extender.objects.sources.volcano import VOLCANO, decode_volcano_pod_group, read_volcano
from extender.objects.topology import Objective, RoleGroup, Slice, TopologyTerms
from tests.builders import written
from tests.docs.conftest import PAGES, ROOT, Block

YAML_BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(block for block in page.blocks if block.language == "yaml")
]
EXAMPLES = [
    pytest.param(Block("yaml", path.read_text(encoding="utf-8")), id=path.relative_to(ROOT).as_posix())
    for folder in (ROOT / "examples", ROOT / "examples" / "topology")
    for path in sorted(folder.glob("*.yaml"))
]


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_yaml_can_be_read(block: Block) -> None:
    """Every block that claims to be YAML holds mappings."""
    assert all(isinstance(document, dict) for document in block.documents())


@pytest.mark.parametrize("block", YAML_BLOCKS + EXAMPLES)
def test_pod_groups_are_sound(block: Block) -> None:
    """No PodGroup has a field or an annotation that Muster cannot use."""
    for group in _groups(block):
        assert group.ref.name
        assert group.min_member > 1 or group.options.tree
        assert (group.problem, group.options.problems) == (None, ())


@pytest.mark.parametrize("block", YAML_BLOCKS + EXAMPLES)
def test_pods_are_sound(block: Block) -> None:
    """Every pod, or pod template, is Muster's, asks for something, and has nothing that cannot be used."""
    for pod in _pods(block):
        assert pod.scheduler_name == "muster"
        assert any(pod.shape.request(resource) for resource in ("nvidia.com/gpu", "cpu"))
        assert (pod.problem, pod.options.problems) == (None, ())


@pytest.mark.parametrize("block", YAML_BLOCKS + EXAMPLES)
def test_pods_name_the_gang_that_stands_beside_them(block: Block) -> None:
    """The pods of a block belong to its PodGroup; without one they say themselves how many must start together."""
    groups = {group.ref for group in _groups(block)}
    for pod in _pods(block):
        assert pod.group is not None
        if pod.group.is_pod:
            assert "muster.dev/queue" in block.text  # with a queue a Job is a gang by itself
        elif pod.group.api == LABEL:
            assert pod.options.min_member is not None
        else:
            assert pod.group in groups


#: Gangs that pods are in by themselves: nothing is written for Muster that could be shown.
BY_THEMSELVES = {
    GROVE,
    KUEUE,
    JOBSET,
    DISAGGREGATED_SET,
    LEADER_WORKER_SET,
    KUBEFLOW,
    RAY,
    JOB,
}


#: Objects whose groups hold groups: a table lists them, and pods name them as they do those in the examples.
OF_PARTS = {COMPOSITE, KAI}


def test_the_pages_show_all_ways() -> None:
    """The page about gangs shows one in every API that people write, README in those that need no other scheduler."""
    shown = {
        str(page): {
            pod.group.api
            for block in page.blocks
            if block.language == "yaml"
            for pod in _pods(block)
            if not pod.group.is_pod
        }
        for page in PAGES
        if str(page) in {"README.md", "docs/gangs.md"}
    }
    written_by_people = set(SOURCE_OF) - BY_THEMSELVES - OF_PARTS - {POD, RAY_JOB}
    assert shown == {"README.md": written_by_people - {VOLCANO}, "docs/gangs.md": written_by_people}


def test_the_page_about_gangs_lists_what_has_parts_in_parts() -> None:
    """Each has a row that begins with what it is called and its API group."""
    (page,) = [page for page in PAGES if str(page) == "docs/gangs.md"]
    for noun, api in (("CompositePodGroup", NATIVE), ("KAI's PodGroup", KAI)):
        assert re.search(rf"^\| [^|]*{noun}s \(`{api}/", page.text, re.MULTILINE)


def test_the_page_about_gangs_lists_the_other_operators() -> None:
    """Each has a row with its API group, and how its pods are known and counted."""
    (page,) = [page for page in PAGES if str(page) == "docs/gangs.md"]
    rows = [line for line in page.text.splitlines() if line.startswith("|")]
    for api in BY_THEMSELVES:
        (row,) = [row for row in rows if row.endswith(f"| `{api}` |")]
        assert SOURCE_OF[api].size_annotation in row


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("levels", TopologyTerms(required="block", preferred="rack")),
        ("slices", TopologyTerms(slices=(Slice(8, "rack"), Slice(2, "node")))),
        ("roles", TopologyTerms(role_groups=(RoleGroup(frozenset({"leader", "worker"}), "rack"),))),
        ("alltoall", TopologyTerms(preferred="rack", objective=Objective.ALLTOALL)),
    ],
)
def test_the_topology_examples_ask_for_what_they_explain(name: str, asks: TopologyTerms) -> None:
    """Each file in examples/topology is understood as its comment says."""
    text = (ROOT / "examples" / "topology" / f"{name}.yaml").read_text(encoding="utf-8")
    (group,) = _groups(Block("yaml", text))
    assert group.options.topology == asks


def test_the_roles_of_the_example_are_those_that_it_has_minimums_for() -> None:
    """The leader and the workers of examples/topology/roles.yaml carry the roles that its PodGroup names."""
    block = Block("yaml", (ROOT / "examples" / "topology" / "roles.yaml").read_text(encoding="utf-8"))
    (group,) = _groups(block)
    assert dict(group.options.role_minimums) == {"leader": 1, "worker": 4}
    assert {pod.role for pod in _pods(block)} == {"leader", "worker", "loader"}


def _groups(block: Block) -> Iterator[PodGroup]:
    for document in _stored(block):
        if document.get("kind") == "PodGroup" and document["apiVersion"] == "scheduling.x-k8s.io/v1alpha1":
            yield read_coscheduling(decode_coscheduling_pod_group(written(document)))
        elif document.get("kind") == "PodGroup" and document["apiVersion"] == "scheduling.volcano.sh/v1beta1":
            yield read_volcano(decode_volcano_pod_group(written(document)))
        elif document.get("kind") == "PodGroup":
            assert document["apiVersion"] == "scheduling.k8s.io/v1beta1"
            yield read_native(decode_native_pod_group(written(document)))


def _pods(block: Block) -> Iterator[Pod]:
    for document in _stored(block):
        match document.get("kind"):
            case "Pod":
                template: dict[str, Any] = document
            case "Job":
                template = {"metadata": {"namespace": "default"}} | document["spec"]["template"]
                template["metadata"].setdefault("namespace", "default")
            case _:
                continue
        # The API server takes limits for requests where a container names only limits.
        for container in template["spec"]["containers"]:
            container["resources"].setdefault("requests", container["resources"]["limits"])
        yield read_pod(decode_pod(written(template)))


def _stored(block: Block) -> Iterator[dict[str, Any]]:
    """Yield the objects of a block as the API server would store them: in a namespace."""
    for listed in block.documents():
        for document in listed["items"] if listed.get("kind") == "List" else [listed]:
            document.get("metadata", {}).setdefault("namespace", "default")
            yield document
