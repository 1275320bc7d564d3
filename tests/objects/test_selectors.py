"""A pod chooses the nodes that kube-scheduler would choose; a label selector picks what the API server would pick."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.meta import (
    Decoder,
    LabelSelector,
    LabelSelectorObject,
    Requirement,
    Selector,
    SelectorTerm,
    read_label_selector,
    read_selector,
)
from extender.objects.podspec import PodObject, PodSpec, decode_pod
from extender.objects.reason import Problem
from tests.builders import pod_json, written
from tests.objects.documents import load, survivors

CASES = load("objects/data/affinity.json")
NODES = {
    node["metadata"]["name"]: node["metadata"]["labels"] or {} for node in load("objects/data/affinity_nodes.json")
}
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "Nearby"]


def affinity_json(*terms: Any) -> dict[str, Any]:
    """Build a pod's affinity with these terms of required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def selector_of(spec: Any) -> Selector:
    """Read the selector of a pod whose spec is given as JSON."""
    pod = decode_pod(written({"spec": spec}))
    assert pod.spec is not None
    return read_selector(pod.spec.node_selector, pod.spec.affinity)


@pytest.mark.parametrize("case", CASES, ids=itertools.count())
def test_a_pod_chooses_the_nodes_that_kube_scheduler_chooses(case: dict[str, Any]) -> None:
    """Every operator, value, bad value and combination of terms matches the nodes that RequiredNodeAffinity matches."""
    terms = case.get("nodeSelectorTerms")
    affinity = None if "nodeSelectorTerms" not in case else affinity_json(*(terms or ()))
    selector = selector_of({"nodeSelector": case.get("nodeSelector"), "affinity": affinity})
    assert [name for name, labels in NODES.items() if selector.matches(name, labels)] == case["matches"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": None},
        {"nodeSelector": {}},
        {"affinity": None},
        {"affinity": {}},
        {"affinity": {"nodeAffinity": {}}},
    ],
)
def test_a_pod_without_wishes_goes_anywhere(spec: Any) -> None:
    """Without selector and required affinity every node matches, and all such pods are alike."""
    selector = selector_of(spec)
    assert selector == Selector()
    assert selector.matches("any", {})


@pytest.mark.parametrize("terms", [[], [{}], [{"matchExpressions": [{"key": "a", "operator": "Nearby"}]}]])
def test_affinity_without_usable_terms_matches_nothing(terms: list[Any]) -> None:
    """Required affinity that is there but empty, or cannot be parsed, is not the same as none."""
    selector = selector_of({"affinity": affinity_json(*terms)})
    assert selector.terms == ()
    assert not selector.matches("any", {"a": "b"})


def test_equal_wishes_are_equal_values() -> None:
    """The order in which a node selector was written does not matter."""
    one = selector_of({"nodeSelector": {"a": "1", "b": "2"}})
    other = selector_of({"nodeSelector": {"b": "2", "a": "1"}})
    assert one == other
    assert hash(one) == hash(other)


def test_an_unknown_operator_matches_no_node() -> None:
    """A requirement whose operator means nothing holds nowhere."""
    assert not Requirement("a", "Nearby", ("b",)).matches({"a": "b"})
    assert not SelectorTerm().matches("node", {})


@pytest.mark.parametrize(("operator", "bounds"), [("Gt", ()), ("Gt", ("1", "2")), ("Lt", ("x",))])
def test_a_comparison_without_one_whole_number_matches_no_node(operator: str, bounds: tuple[str, ...]) -> None:
    """Gt and Lt hold nowhere unless they name one integer."""
    assert not Requirement("a", operator, bounds).matches({"a": "5"})


TEXTS = st.text(max_size=4) | st.sampled_from(["a", "1", "-1", "9" * 30])


@given(
    operator=st.sampled_from(OPERATORS),
    values=st.lists(TEXTS, max_size=3).map(tuple),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    key=TEXTS,
)
def test_matching_never_raises(operator: str, values: tuple[str, ...], labels: dict[str, str], key: str) -> None:
    """Any requirement can be asked of any labels, and NotIn is the opposite of In."""
    requirement = Requirement(key, operator, values)
    matches = requirement.matches(labels)
    assert Selector(terms=(SelectorTerm(labels=(requirement,)),)).matches("node", labels) is matches
    if operator == "In":
        assert Requirement(key, "NotIn", values).matches(labels) is not matches


@given(
    pod=survivors(
        decode_pod,
        pod_json(
            spec={
                "nodeSelector": {"zone": "a"},
                "affinity": affinity_json(
                    {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node"]}]},
                ),
            }
        ),
    )
)
def test_any_selector_can_be_read_and_asked(pod: PodObject) -> None:
    """No selector of a pod that can be decoded raises, and whatever it says is said again by an equal value."""
    spec = pod.spec or PodSpec()
    selector = read_selector(spec.node_selector, spec.affinity)
    assert selector == read_selector(spec.node_selector, spec.affinity)
    assert selector.matches("node", {"gpu": "h100"}) in (True, False)


_DECODE = Decoder(LabelSelectorObject)


def read(**fields: Any) -> LabelSelector | Problem:
    """Read a selector given as JSON."""
    return read_label_selector(_DECODE(written(fields)), "spec.selector")


def requirement(key: str, operator: str, *values: str) -> dict[str, list[dict[str, object]]]:
    """Return the fields of a selector with one requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "picked"),
    [
        ({}, "abc"),
        ({"matchLabels": None, "matchExpressions": None}, "abc"),
        ({"matchLabels": {"team": "red"}}, "a"),
        ({"matchLabels": {"team": "red", "tier": "2"}}, ""),
        (requirement("team", "In", "red", "blue"), "ab"),
        (requirement("team", "NotIn", "red"), "bc"),
        (requirement("tier", "Exists"), "b"),
        (requirement("tier", "DoesNotExist"), "ac"),
        ({"matchLabels": {"team": "blue"}} | requirement("tier", "In", "2"), "b"),
    ],
)
def test_all_requirements_must_hold(selector: dict[str, Any], picked: str) -> None:
    """Labels and expressions must all hold, an absent label satisfies NotIn, and an empty selector picks everything."""
    objects = {"a": {"team": "red"}, "b": {"team": "blue", "tier": "2"}, "c": {}}
    read_selector = read(**selector)
    assert isinstance(read_selector, LabelSelector)
    assert "".join(name for name, labels in objects.items() if read_selector.matches(labels)) == picked


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (
            requirement("team", "Is", "red"),
            "spec.selector.matchExpressions[0].operator: 'Is' is none of DoesNotExist, Exists, In, NotIn",
        ),
        (requirement("team", "In"), "spec.selector.matchExpressions[0].values: must not be empty with In"),
        (requirement("team", "Exists", "red"), "spec.selector.matchExpressions[0].values: must be empty with Exists"),
        (requirement("", "Exists"), "spec.selector.matchExpressions[0].key: is missing"),
        ({"matchExpressions": [{}]}, "spec.selector.matchExpressions[0].key: is missing"),
    ],
)
def test_a_selector_that_cannot_be_used_names_its_field(selector: dict[str, Any], problem: str) -> None:
    """What the API server's own rules refuse is told with the field."""
    assert str(read(**selector)) == problem
