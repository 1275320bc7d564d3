"""The extender protocol, as kube-scheduler's own types write and read it."""

from __future__ import annotations

import json

import msgspec

from extender.objects.meta import encode_struct
from extender.placement.candidates import MAX_EXTENDER_PRIORITY
from extender.service.verbs import (
    BindingArgs,
    BindingResult,
    ExtenderArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    PodInQuestionMeta,
    PodInQuestionStatus,
    PreemptionResult,
    decode_binding_args,
    decode_extender_args,
    decode_extender_question,
    decode_preemption_args,
)
from tests.builders import written
from tests.objects.documents import load

PROTOCOL = load("objects/data/protocol.json")


def test_filter_asks_by_name() -> None:
    """With nodeCacheCapable, the arguments of filter hold the pod and the names of the nodes."""
    args = decode_extender_args(written(PROTOCOL["filterNames"]))
    assert args.pod is not None
    assert args.pod.metadata is not None
    assert (args.pod.metadata.name, args.pod.metadata.uid) == ("a", "uid")
    assert (args.node_names, args.nodes) == (["node-0", "node-1"], None)


def test_a_question_about_a_known_pod_is_read_in_part() -> None:
    """Of the pod only its UID and its nomination are read; the nodes are those of the whole arguments."""
    body = {**PROTOCOL["filterNames"], "Pod": {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "node-1"}}}
    question = decode_extender_question(written(body | {"Pod": body["Pod"] | {"spec": 7}}))
    assert question.pod is not None
    assert question.pod.metadata == PodInQuestionMeta("u")
    assert question.pod.status == PodInQuestionStatus("node-1")
    assert question.node_names == decode_extender_args(written(body)).node_names == ["node-0", "node-1"]


def test_filter_asks_with_whole_nodes() -> None:
    """Without nodeCacheCapable, the arguments of filter hold the nodes, each as the bytes that arrived."""
    args = decode_extender_args(written(PROTOCOL["filterNodes"]))
    assert args.node_names is None
    assert args.nodes is not None
    assert args.nodes.items is not None
    assert [json.loads(bytes(item)) for item in args.nodes.items] == PROTOCOL["filterNodes"]["Nodes"]["items"]


def test_every_argument_may_be_null() -> None:
    """Arguments of which Go wrote every pointer as null are read as None."""
    assert set(PROTOCOL["filterNobody"].values()) == {None}
    assert decode_extender_args(written(PROTOCOL["filterNobody"])) == ExtenderArgs()


def test_bind_asks_by_pod_and_node() -> None:
    """The arguments of bind are names and a UID."""
    args = decode_binding_args(written(PROTOCOL["bind"]))
    assert args == BindingArgs(pod_name="a", pod_namespace="default", pod_uid="uid", node="node-0")


def test_preempt_asks_by_uid() -> None:
    """With nodeCacheCapable, victims come by UID; a node may come without any."""
    args = decode_preemption_args(written(PROTOCOL["preemptMeta"]))
    assert args.node_name_to_victims is None
    assert args.node_name_to_meta_victims == {
        "node-0": MetaVictims(pods=[MetaPod(uid="victim")], num_pdb_violations=2),
        "node-1": MetaVictims(pods=None, num_pdb_violations=0),
    }


def test_preempt_asks_with_whole_pods() -> None:
    """Without nodeCacheCapable, victims come as pods."""
    args = decode_preemption_args(written(PROTOCOL["preemptPods"]))
    assert args.node_name_to_meta_victims is None
    victims = (args.node_name_to_victims or {})["node-0"]
    assert victims is not None
    assert victims.num_pdb_violations == 1
    assert [pod.metadata.name for pod in victims.pods or () if pod and pod.metadata] == ["victim"]


def answer(value: msgspec.Struct | list[HostPriority]) -> object:
    """Return the JSON document that kube-scheduler would read."""
    return json.loads(encode_struct(value))


def test_filter_answers_as_go_would() -> None:
    """A filter result is, field for field, what Go's type would have written."""
    result = FilterResult(
        node_names=["node-0", "node-1"],
        failed_nodes={"node-2": "full"},
        failed_and_unresolvable_nodes={"node-3": "tainted"},
    )
    assert answer(result) == PROTOCOL["filterResult"]
    assert answer(FilterResult(error="cache not synced")) == PROTOCOL["filterError"]


def test_filter_echoes_nodes_byte_for_byte() -> None:
    """A node that came whole goes back exactly as it came."""
    body = b'{"Nodes": {"items": [{"metadata":  {"name": "\\u00e4"}}]}}'
    nodes = decode_extender_args(body).nodes
    assert b'{"metadata":  {"name": "\\u00e4"}}' in encode_struct(FilterResult(nodes=nodes))


def test_prioritize_answers_as_go_would() -> None:
    """Priorities are a list of hosts and scores, up to MAX_EXTENDER_PRIORITY."""
    scores = [HostPriority("node-0", MAX_EXTENDER_PRIORITY), HostPriority("node-1", 0)]
    assert answer(scores) == PROTOCOL["priorities"]


def test_bind_answers_as_go_would() -> None:
    """A bind result is its error."""
    assert answer(BindingResult(error="gang expired")) == PROTOCOL["bindResult"]


def test_preempt_answers_as_go_would() -> None:
    """A preemption result names the victims of each node that is still a candidate."""
    victims = MetaVictims(pods=[MetaPod(uid="victim")], num_pdb_violations=2)
    assert answer(PreemptionResult({"node-0": victims})) == PROTOCOL["preemptResult"]
