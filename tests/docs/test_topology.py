"""docs/topology.md against the program: tables, output, annotations, labels, settings."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml

from extender.hardware.links import POLICY_LABEL
from extender.hardware.products import ACCELERATOR_LABEL, INSTANCE_LABEL, PRODUCT_LABELS, REPLICAS_LABEL
from extender.objects.keys import KNOWN_ANNOTATIONS, MAX_MEMBER, MIN_MEMBER, SHARING_KEYS, TREE, read_options
from extender.objects.node import CLIQUE_LABEL
from extender.objects.peers import PEER_KEYS
from extender.settings import Settings
from tests.docs import topology_page
from tests.docs.conftest import Page

#: A row of the table of annotations: the words of Muster, Kueue and KAI.
_WORDS = re.compile(r"^\|[^|]+\| `(muster\.dev/[^`]+)` \|([^|]*)\|([^|]*)\|", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@pytest.fixture
def topology(page: Callable[[str], Page]) -> Page:
    """Return the page about topology."""
    return page("docs/topology.md")


@pytest.mark.parametrize("mark", topology_page.PARTS)
def test_the_page_shows_what_the_program_says(topology: Page, mark: str) -> None:
    """Tables and output are what the code makes of them; `python -m tests.docs.topology_page` prints them anew."""
    assert topology_page.PARTS[mark]() in topology.text


def test_the_figures_in_the_text_are_those_of_the_example(page: Callable[[str], Page], topology: Page) -> None:
    """What README.md and the page say in words of the three gangs is what the example prints of them."""
    printed = re.findall(r"  ([\d.]+) GB/s", topology_page.bandwidth_output())[1:]
    one, two, lone = (f"{float(figure):.0f}" for figure in printed)
    readme = " ".join(page("README.md").prose.split())
    assert f"{one} GB/s on one node, {two} as 4 + 4 on two, {lone} as 7 + 1" in readme
    told = " ".join(topology.prose.split())
    assert all(f"{figure} GB/s" in told for figure in (one, two, lone))


def test_every_annotation_is_shown_with_a_value_that_can_be_used(topology: Page) -> None:
    """The table has all annotations by which a gang asks for a place, each with an example."""
    examples = dict(own.split(": ", 1) for own, _, _ in _WORDS.findall(topology.text))
    assert examples.keys() == KNOWN_ANNOTATIONS - SHARING_KEYS - {MIN_MEMBER, MAX_MEMBER}
    tree = {TREE: examples.pop(TREE)}  # it says of parts what others say of roles
    assert [read_options({}, asked).problems for asked in (examples, tree)] == [(), ()]


def test_the_words_of_other_schedulers_are_read(topology: Page) -> None:
    """What the table says of Kueue and KAI is what Muster reads of their annotations."""
    rows = _WORDS.findall(topology.text)
    shown = {f"kueue.x-k8s.io/{key}" for _, kueue, _ in rows for key in _CODE.findall(kueue)}
    shown |= {f"kai.scheduler/{key}" for _, _, kai in rows for key in _CODE.findall(kai)}
    assert shown <= PEER_KEYS
    unshown = {key.rpartition("/")[2] for key in PEER_KEYS - shown}
    assert unshown == {"podset-unconstrained-topology", "segment-topology-preferred-placement"}


def test_every_label_that_says_what_hardware_it_is_is_there(topology: Page) -> None:
    """The table of labels has all those that product, network, NVLink domain and partitions are read from."""
    read = {*PRODUCT_LABELS, ACCELERATOR_LABEL, INSTANCE_LABEL, REPLICAS_LABEL, CLIQUE_LABEL, POLICY_LABEL}
    assert read <= set(_CODE.findall(topology.sections["The nodes"]))


def test_the_list_of_levels_is_a_setting(topology: Page) -> None:
    """The levels on the page are accepted as they stand."""
    (block,) = (block for block in topology.blocks if "topology_levels" in block.text)
    levels = Settings.model_validate(yaml.safe_load(block.text)).topology_levels
    assert [level.name for level in levels] == ["block", "rack"]
