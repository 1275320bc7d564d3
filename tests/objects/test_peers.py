"""What Kueue's and KAI's annotations ask for, and what becomes of words that cannot be kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.keys import GANG, NO_OPTIONS, ROLE, TOPOLOGY_PREFERRED, TOPOLOGY_ROLE_GROUPS, Options
from extender.objects.peers import KAI_FRACTIONS, PEER_KEYS, Reading, field_of, fraction_problems, read_peers
from extender.objects.podoptions import read_pod_options
from extender.objects.reason import Problem
from extender.objects.topology import SILENT, Slice, TopologyTerms

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
GROUP = "kueue.x-k8s.io/podset-group-name"
SLICE_LEVEL = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KAI = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_LEVEL = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"


def layers(*sizes: tuple[str, object]) -> str:
    """Write Kueue's layers of slices."""
    return json.dumps([{"topology": level, "size": size} for level, size in sizes])


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        ({}, SILENT),
        ({"kueue.x-k8s.io/queue-name": "a", KAI: "default"}, SILENT),
        ({REQUIRED: "example.com/rack"}, TopologyTerms(required="example.com/rack", podset="")),
        ({PREFERRED: "rack"}, TopologyTerms(preferred="rack", podset="")),
        ({REQUIRED: "rack", GROUP: "pair"}, TopologyTerms(required="rack", podset="pair")),
        ({GROUP: "pair"}, SILENT),
        ({UNCONSTRAINED: "true"}, SILENT),
        ({UNCONSTRAINED: "false", REQUIRED: "rack"}, TopologyTerms(required="rack", podset="")),
        ({SLICE_LEVEL: "rack", SLICE_SIZE: "4"}, TopologyTerms(slices=(Slice(4, "rack"),))),
        (
            {LAYERS: layers(("block", "32"), ("rack", 16))},
            TopologyTerms(slices=(Slice(32, "block"), Slice(16, "rack"))),
        ),
        (
            {KAI: "default", KAI_REQUIRED: "zone", KAI_PREFERRED: "rack"},
            TopologyTerms(required="zone", preferred="rack"),
        ),
        ({SEGMENT_SIZE: "4", SEGMENT_LEVEL: "rack"}, TopologyTerms(slices=(Slice(4, "rack"),))),
        ({REQUIRED: "rack", KAI_REQUIRED: "rack"}, TopologyTerms(required="rack", podset="")),
        ({PREFERRED: "rack", KAI_REQUIRED: "zone"}, TopologyTerms(required="zone", preferred="rack", podset="")),
    ],
)
def test_annotations_are_read_as_they_stand(annotations: dict[str, str], terms: TopologyTerms) -> None:
    """Kueue's levels are about a set of pods, KAI's about the gang; what agrees may be said twice."""
    assert read_peers(annotations) == (terms, ())


def test_peers_that_contradict_each_other_are_a_problem() -> None:
    """The first peer's level and slices count, and the problem names both keys."""
    annotations = {
        REQUIRED: "rack",
        KAI_REQUIRED: "zone",
        SLICE_LEVEL: "rack",
        SLICE_SIZE: "4",
        SEGMENT_LEVEL: "rack",
        SEGMENT_SIZE: "2",
    }
    terms, problems = read_peers(annotations)
    assert terms == TopologyTerms(required="rack", slices=(Slice(4, "rack"),), podset="")
    assert problems == (
        Problem(field_of(KAI_REQUIRED), f"'zone' contradicts {field_of(REQUIRED)}, which says 'rack' and counts"),
        Problem(field_of(SEGMENT_LEVEL), f"contradicts {field_of(SLICE_LEVEL)}, which counts"),
    )


def test_an_objects_own_fields_count_before_its_annotations() -> None:
    """Whoever reads a PodGroup states its fields first."""
    reading = Reading()
    reading.level("required", "block", "spec.networkTopology")
    terms, problems = read_peers({KAI_REQUIRED: "zone", KAI_PREFERRED: "rack"}, reading)
    assert terms == TopologyTerms(required="block", preferred="rack")
    assert [problem.field for problem in problems] == [field_of(KAI_REQUIRED)]


@pytest.mark.parametrize(
    ("annotations", "key", "message"),
    [
        ({REQUIRED: "two racks"}, REQUIRED, "'two racks' is not the name of a level or a node label key"),
        ({PREFERRED: ""}, PREFERRED, "'' is not the name of a level or a node label key"),
        ({KAI_REQUIRED: "a,b"}, KAI_REQUIRED, "'a,b' is not the name of a level or a node label key"),
        ({UNCONSTRAINED: "yes"}, UNCONSTRAINED, "'yes' is not true or false"),
        ({SLICE_SIZE: "4"}, SLICE_SIZE, f"says nothing without {SLICE_LEVEL}"),
        ({SLICE_LEVEL: "rack"}, SLICE_LEVEL, f"says nothing without {SLICE_SIZE}"),
        ({SLICE_LEVEL: "rack", SLICE_SIZE: "0"}, SLICE_SIZE, "'0' is not a whole number of at least 1"),
        (
            {SLICE_LEVEL: "a b", SLICE_SIZE: "4"},
            SLICE_LEVEL,
            "'a b' is not the name of a level or a node label key",
        ),
        ({SEGMENT_SIZE: "4"}, SEGMENT_SIZE, f"says nothing without {SEGMENT_LEVEL}"),
        ({SEGMENT_LEVEL: "rack"}, SEGMENT_LEVEL, f"says nothing without {SEGMENT_SIZE}"),
    ],
)
def test_what_cannot_be_used_is_a_problem(annotations: dict[str, str], key: str, message: str) -> None:
    """A value that means nothing is ignored, and the problem names its key."""
    assert read_peers(annotations) == (SILENT, (Problem(field_of(key), message),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "rack=4",
        layers(("rack", 0)),
        layers(("rack", 4), ("node", 3)),
        layers(("", 4)),
        '[{"topology": "rack"}]',
        '[{"topology": "rack", "sizes": [1, 3, 4]}]',
        '[{"topology": "rack", "size": 4, "sizes": [4, 4]}]',
    ],
)
def test_layers_that_cannot_be_kept_are_a_problem(text: str) -> None:
    """Layers are JSON, of one size each, and divide each other."""
    terms, (problem,) = read_peers({LAYERS: text})
    assert terms == SILENT
    assert problem.field == field_of(LAYERS)
    assert problem.message.startswith(f"{text!r} is not layers of one size each")


def test_unconstrained_contradicts_a_level() -> None:
    """Whoever says both gets the level, and is told."""
    terms, problems = read_peers({UNCONSTRAINED: "true", PREFERRED: "rack"})
    assert terms.preferred == "rack"
    assert problems == (Problem(field_of(UNCONSTRAINED), f"contradicts {field_of(PREFERRED)}, which counts"),)


def test_a_preference_for_segments_is_a_problem() -> None:
    """Muster keeps slices together or does not; it says so, once, and keeps the required level."""
    terms, problems = read_peers({SEGMENT_SIZE: "4", SEGMENT_PREFERRED: "rack"})
    assert (terms, [problem.field for problem in problems]) == (SILENT, [field_of(SEGMENT_PREFERRED)])
    terms, problems = read_peers({SEGMENT_SIZE: "4", SEGMENT_PREFERRED: "node", SEGMENT_LEVEL: "rack"})
    assert terms.slices == (Slice(4, "rack"),)
    assert [problem.field for problem in problems] == [field_of(SEGMENT_PREFERRED)]


KEYS = sorted(PEER_KEYS)


def test_equal_words_of_pods_are_read_once() -> None:
    """Members of a gang share one object, whatever else stands on them; who asks for nothing has the plain one."""
    words = {REQUIRED: "rack", TOPOLOGY_PREFERRED: "node"}
    options = read_pod_options({}, words | {"note": "a", "muster.dev/predicted-gpus": "0"})
    assert options == Options(topology=TopologyTerms(preferred="node"), peers=TopologyTerms(required="rack", podset=""))
    assert read_pod_options({GANG: "train"}, words | {"muster.dev/predicted-gpus": "1"}) is options
    assert read_pod_options({GANG: "train", "app": "x"}, {"note": "a"}) is NO_OPTIONS


def test_unknown_labels_of_pods_are_told() -> None:
    """A pod's labels are looked at too."""
    (problem,) = read_pod_options({"muster.dev/rol": "worker", ROLE: "worker"}, {}).problems
    assert problem.field == "metadata.labels[muster.dev/rol]"


def test_long_words_are_not_kept() -> None:
    """Nobody fills the memory with annotations: what is long is read for each pod anew."""
    words = {TOPOLOGY_ROLE_GROUPS: "+".join(f"role-{number}" for number in range(200)) + "=rack"}
    one, other = (read_pod_options({}, dict(words)) for _ in range(2))
    assert one == other
    assert one is not other
    assert len(one.topology.role_groups[0].roles) == 200


TEXTS = st.sampled_from(["rack", "block", "4", "0", "true", layers(("rack", 4))]) | st.text(max_size=6)


@given(st.dictionaries(st.sampled_from(KEYS), TEXTS))
def test_any_annotations_can_be_read(annotations: dict[str, str]) -> None:
    """Nothing raises, problems name keys that stand there, and reading again gives the same."""
    terms, problems = read_peers(annotations)
    assert {problem.field for problem in problems} <= {field_of(key) for key in annotations}
    assert read_peers(annotations) == (terms, problems)


@pytest.mark.parametrize("key", KAI_FRACTIONS)
def test_part_of_a_gpu_that_only_kai_gives_out_is_a_problem(key: str) -> None:
    """A pod of Muster's that asks KAI for a part of a GPU is told that it gets none."""
    (problem,) = fraction_problems({key: "0.5", "other": "x"})
    assert str(problem).startswith(f"metadata.annotations[{key}]: gives the pod no GPU")
    assert problem in read_pod_options({}, {key: "0.5"}).problems
    assert fraction_problems({"other": "x"}) == read_pod_options({}, {"other": "x"}).problems == ()
