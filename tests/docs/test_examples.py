"""The YAML in the pages: what claims to be a PodGroup or a pod is one, without problems, and belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.membership import GroupApi
from extender.domain.pod import Pod, read_pod
from extender.domain.podgroup import PodGroup, read_coscheduling, read_native
from extender.wire import codec
from tests.builders import written
from tests.docs.conftest import PAGES, Block

YAML_BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(block for block in page.blocks if block.language == "yaml")
]


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_yaml_can_be_read(block: Block) -> None:
    """Every block that claims to be YAML holds mappings."""
    assert all(isinstance(document, dict) for document in block.documents())


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_pod_groups_are_sound(block: Block) -> None:
    """No PodGroup in a page has a field or an annotation that Muster cannot use."""
    for group in _groups(block):
        assert group.ref.name
        assert group.min_member > 1
        assert (group.problem, group.options.problems) == (None, ())


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_pods_are_sound(block: Block) -> None:
    """Every pod, or pod template, in a page is Muster's, asks for something, and has nothing that cannot be used."""
    for pod in _pods(block):
        assert pod.scheduler_name == "muster"
        assert pod.shape.request("nvidia.com/gpu") > 0
        assert (pod.problem, pod.options.problems) == (None, ())


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_pods_name_the_gang_that_stands_beside_them(block: Block) -> None:
    """The pods of a block belong to its PodGroup; without one they say themselves how many must start together."""
    groups = {group.ref for group in _groups(block)}
    for pod in _pods(block):
        assert pod.group is not None
        if pod.group.api is GroupApi.LABEL:
            assert pod.options.min_member is not None
        else:
            assert pod.group in groups


def test_the_pages_show_all_three_ways() -> None:
    """README and the page about gangs each show a gang in every API that Muster reads."""
    shown = {
        str(page): {
            pod.group.api for block in page.blocks if block.language == "yaml" for pod in _pods(block) if pod.group
        }
        for page in PAGES
        if str(page) in {"README.md", "docs/gangs.md"}
    }
    assert shown == {"README.md": set(GroupApi), "docs/gangs.md": set(GroupApi)}


def _groups(block: Block) -> Iterator[PodGroup]:
    for document in _stored(block):
        if document.get("kind") == "PodGroup" and document["apiVersion"] == "scheduling.x-k8s.io/v1alpha1":
            yield read_coscheduling(codec.decode_coscheduling_pod_group(written(document)))
        elif document.get("kind") == "PodGroup":
            assert document["apiVersion"] == "scheduling.k8s.io/v1beta1"
            yield read_native(codec.decode_native_pod_group(written(document)))


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
        yield read_pod(codec.decode_pod(written(template)))


def _stored(block: Block) -> Iterator[dict[str, Any]]:
    """Yield the objects of a block as the API server would store them: in a namespace."""
    for document in block.documents():
        document.get("metadata", {}).setdefault("namespace", "default")
        yield document
