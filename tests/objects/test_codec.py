"""Whatever arrives, decoding gives a struct or a DecodeError; what is encoded, Kubernetes can read."""

from __future__ import annotations

import json
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import kube, objects
from extender.hardware.calibration import decode_config_map
from extender.kube.api import decode_object_list, decode_status
from extender.kube.rights import decode_review
from extender.kube.status import decode_conditioned
from extender.kube.version import decode_version
from extender.kube.watch import decode_watch_event
from extender.objects.budget import decode_disruption_budget
from extender.objects.computedomain import decode_compute_domain
from extender.objects.deviceclass import decode_device_class
from extender.objects.devices import decode_device
from extender.objects.devicetaintrule import decode_device_taint_rule
from extender.objects.hypernodes import decode_hyper_node
from extender.objects.jobs import decode_job
from extender.objects.lease import decode_lease
from extender.objects.levelobjects import decode_grove_topology, decode_network_topology, decode_topology
from extender.objects.meta import DecodeError, Decoder, decode_metadata, encode, encode_plain, encode_struct
from extender.objects.node import decode_node
from extender.objects.noderequest import decode_provisioning_request
from extender.objects.nodetopology import decode_node_resource_topology
from extender.objects.podspec import decode_pod
from extender.objects.priority import decode_priority_class
from extender.objects.queue import decode_queue
from extender.objects.resourceclaim import decode_resource_claim, decode_resource_claim_template
from extender.objects.resourceslice import decode_resource_slice
from extender.objects.sources.coscheduling import decode_coscheduling_pod_group
from extender.objects.sources.disaggregatedset import decode_disaggregated_set
from extender.objects.sources.grove import decode_pod_gang
from extender.objects.sources.jobset import decode_job_set
from extender.objects.sources.kai import decode_kai_pod_group
from extender.objects.sources.kubeflow import decode_kubeflow_job
from extender.objects.sources.leaderworkerset import decode_leader_worker_set
from extender.objects.sources.native import decode_composite_pod_group, decode_native_pod_group
from extender.objects.sources.ray import decode_ray_cluster, decode_ray_job
from extender.objects.sources.volcano import decode_volcano_pod_group
from extender.service import verbs
from extender.service.verbs import (
    BindingResult,
    FilterResult,
    HostPriority,
    decode_binding_args,
    decode_extender_args,
    decode_extender_question,
    decode_preemption_args,
)
from tests import builders
from tests.builders import written
from tests.objects.documents import load, spoiled
from tests.objects.dra import FULL_CLAIM, FULL_CLASS, FULL_RULE, FULL_SLICE, FULL_TEMPLATE

OBJECTS = load("objects/data/objects.json")
PROTOCOL = load("objects/data/protocol.json")

#: One valid document for each decoder there is.
DOCUMENTS: dict[Decoder[Any], object] = {
    decode_pod: OBJECTS["Pod"],
    decode_node: OBJECTS["Node"],
    decode_provisioning_request: {
        "metadata": {"name": "train-1", "namespace": "default", "uid": "u"},
        "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": [{"count": 3}]},
        "status": {"conditions": [{"type": "Provisioned", "status": "True", "reason": "CapacityIsFound"}]},
    },
    decode_node_resource_topology: {
        "metadata": {"name": "node-1"},
        "topologyPolicies": ["RestrictedContainerLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}],
        "zones": [
            {
                "name": "node-0",
                "type": "Node",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": [{"name": "cpu", "capacity": "64", "allocatable": "62", "available": 60}],
            }
        ],
    },
    decode_priority_class: OBJECTS["PriorityClass"],
    decode_coscheduling_pod_group: builders.coscheduling_json(minMember=4, minResources={"cpu": 4}),
    decode_native_pod_group: OBJECTS["NativePodGroup"],
    decode_composite_pod_group: {
        "metadata": {"name": "serve", "namespace": "default", "uid": "u"},
        "spec": {
            "parentCompositePodGroupName": "fleet",
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "priorityClassName": "high",
        },
    },
    decode_kai_pod_group: {
        "metadata": {"name": "serve", "namespace": "default", "uid": "u"},
        "spec": {
            "minSubGroup": 1,
            "queue": "team",
            "subGroups": [
                {"name": "replica", "minSubGroup": 1, "topologyConstraint": {"requiredTopologyLevel": "rack"}},
                {"name": "prefill", "parent": "replica", "minMember": 4},
            ],
        },
    },
    decode_volcano_pod_group: builders.volcano_json(minMember=4, networkTopology={"highestTierAllowed": 1}),
    decode_hyper_node: {
        "metadata": {"name": "s0"},
        "spec": {
            "tier": 1,
            "tierName": "leaf",
            "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": "n"}}},
                {"type": "Node", "selector": {"regexMatch": {"pattern": "^n"}}},
                {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r"}, "matchExpressions": None}}},
            ],
        },
    },
    decode_topology: {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "example.com/rack"}]}},
    decode_network_topology: {
        "metadata": {"name": "t"},
        "spec": {"networkTopologySpec": [{"topologyLayer": "rack", "labelKey": ["example.com/rack"]}]},
    },
    decode_grove_topology: {"metadata": {"name": "t"}, "spec": {"levels": [{"domain": "rack", "key": "x/rack"}]}},
    decode_resource_slice: FULL_SLICE,
    decode_compute_domain: {
        "metadata": {"namespace": "default", "name": "domain"},
        "spec": {
            "numNodes": 2,
            "channel": {"resourceClaimTemplate": {"name": "channel"}, "allocationMode": "Single"},
        },
    },
    decode_device_class: FULL_CLASS,
    decode_device_taint_rule: FULL_RULE,
    decode_resource_claim: FULL_CLAIM,
    decode_resource_claim_template: FULL_TEMPLATE,
    decode_device: {"metadata": {"name": "n", "annotations": {"key": "value"}}},
    decode_config_map: {"metadata": {"name": "c"}, "data": {"key": "value"}},
    decode_queue: {
        "metadata": {"name": "team"},
        "spec": {"weight": 2, "flavors": [{"name": "h100", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]},
        "status": {"history": [{"resource": "cpu", "usage": "1.5"}]},
    },
    decode_disruption_budget: OBJECTS["PodDisruptionBudget"],
    decode_conditioned: builders.coscheduling_json() | {"status": {"conditions": [OBJECTS["Condition"]]}},
    decode_job: {
        "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "completions": 4, "suspend": True, "template": OBJECTS["Pod"]},
        "status": {"succeeded": 1, "completedIndexes": "0", "conditions": [{"type": "Complete", "status": "False"}]},
    },
    decode_job_set: {
        "metadata": {"name": "train"},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "worker",
                    "replicas": 2,
                    "dependsOn": [{"name": "driver", "status": "Ready"}],
                    "template": {"spec": {"parallelism": 4, "completions": 4, "template": OBJECTS["Pod"]}},
                }
            ],
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
        },
    },
    decode_disaggregated_set: {
        "metadata": {"name": "llm", "namespace": "team"},
        "spec": {
            "slices": 2,
            "roles": [{"name": "prefill", "metadata": {}, "spec": {"leaderWorkerTemplate": {"size": 2}}}],
        },
    },
    decode_leader_worker_set: {
        "metadata": {"name": "serve"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 4, "workerTemplate": OBJECTS["Pod"]},
            "startupPolicy": "LeaderReady",
            "rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": "25%"}},
        },
    },
    decode_kubeflow_job: {
        "metadata": {"name": "train"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {"minAvailable": 3, "queue": "research", "minResources": {"cpu": "4"}}},
            "elasticPolicy": {"minReplicas": 2},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": OBJECTS["Pod"]}},
        },
    },
    decode_ray_cluster: {
        "metadata": {"name": "ray"},
        "spec": {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "minReplicas": 1, "numOfHosts": 4}]},
    },
    decode_ray_job: {
        "metadata": {"name": "ray"},
        "spec": {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": {"headGroupSpec": {}}},
        "status": {"jobDeploymentStatus": "Suspended"},
    },
    decode_pod_gang: {
        "metadata": {"name": "llm-0"},
        "spec": {
            "podgroups": [{"name": "decode", "podReferences": [], "minReplicas": 2}],
            "topologyConstraint": {"packConstraint": {"required": "topology.kubernetes.io/rack"}},
            "topologyConstraintGroupConfigs": [{"name": "0", "podGroupNames": ["decode"]}],
        },
    },
    decode_object_list: OBJECTS["ObjectList"],
    decode_watch_event: {"type": "ADDED", "object": builders.pod_json()},
    decode_metadata: OBJECTS["Pod"],
    decode_status: OBJECTS["Status"],
    decode_review: {
        "status": {
            "allowed": True,
            "authenticated": True,
            "user": {"username": "ann", "uid": "u", "groups": ["team-a"]},
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}],
        }
    },
    decode_lease: {"spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 5, "renewTime": "2026-01-01T00:00Z"}},
    decode_version: {"gitVersion": "v1.37.0", "major": "1", "minor": "37"},
    decode_extender_args: PROTOCOL["filterNodes"],
    decode_extender_question: PROTOCOL["filterNodes"],
    decode_binding_args: PROTOCOL["bind"],
    decode_preemption_args: PROTOCOL["preemptMeta"],
}
decoders = pytest.mark.parametrize("decoder", DOCUMENTS, ids=lambda decoder: decoder.kind.__name__)


def outcome(decoder: Decoder[Any], body: bytes) -> object:
    """Decode `body`; return the struct or the DecodeError, and let any other exception through."""
    try:
        return decoder(body)
    except DecodeError as error:
        return error


def test_every_decoder_is_tested_here() -> None:
    """The table of documents names every decoder of what the API server and kube-scheduler send."""
    names = (
        each.name for package in (objects, kube) for each in walk_packages(package.__path__, f"{package.__name__}.")
    )
    modules = [import_module(name) for name in names] + [verbs]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Decoder)}
    of_objects = {decoder for decoder in found if get_origin(decoder.kind) is None}  # others are of annotations
    assert set(DOCUMENTS) == of_objects | {decode_config_map}


@decoders
def test_a_valid_document_is_decoded(decoder: Decoder[Any]) -> None:
    """A document as Kubernetes writes it is decoded, whichever buffer it arrives in."""
    body = written(DOCUMENTS[decoder])
    decoded = decoder(body)
    assert isinstance(decoded, decoder.kind)
    for same in (bytearray(body), memoryview(body), msgspec.Raw(body)):
        assert msgspec.json.encode(decoder(same)) == msgspec.json.encode(decoded)


@decoders
@given(body=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_with_a_decode_error(decoder: Decoder[Any], body: bytes) -> None:
    """No byte string makes a decoder raise anything but DecodeError."""
    assert isinstance(outcome(decoder, body), decoder.kind | DecodeError)


@decoders
@given(data=st.data())
def test_spoiled_documents_are_refused_with_a_decode_error(decoder: Decoder[Any], data: st.DataObject) -> None:
    """No replaced, missing, null or repeated value makes a decoder raise anything but DecodeError."""
    body = written(data.draw(spoiled(DOCUMENTS[decoder])))
    assert isinstance(outcome(decoder, body), decoder.kind | DecodeError)


@decoders
@given(data=st.data())
def test_damaged_bytes_are_refused_with_a_decode_error(decoder: Decoder[Any], data: st.DataObject) -> None:
    """No truncation and no flipped byte makes a decoder raise anything but DecodeError."""
    body = bytearray(written(DOCUMENTS[decoder]))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body[: data.draw(st.integers(0, len(body)))])
    assert isinstance(outcome(decoder, damaged), decoder.kind | DecodeError)


@decoders
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{} {}",
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"metadata":' * 100_000,
    ],
    ids=["empty", "null", "list", "trailing", "deep", "deep and open"],
)
def test_what_is_no_json_object_is_refused(decoder: Decoder[Any], body: bytes) -> None:
    """Nothing, null, a list, trailing data and excessive nesting are DecodeErrors."""
    with pytest.raises(DecodeError, match=f"^cannot read {decoder.name}: "):
        decoder(body)


def test_an_error_names_the_place() -> None:
    """The message of a DecodeError holds the path of the value that is wrong."""
    with pytest.raises(DecodeError, match=r"at `\$\.spec\.priority`"):
        decode_pod(b'{"spec": {"priority": "high"}}')


@pytest.mark.parametrize(
    ("decoder", "body"),
    [
        (decode_pod, b'{"spec": {"priority": 2147483648}}'),
        (decode_coscheduling_pod_group, b'{"spec": {"minMember": -2147483649}}'),
        (decode_coscheduling_pod_group, b'{"spec": {"scheduleTimeoutSeconds": 1' + b"0" * 400 + b"}}"),
        (decode_preemption_args, b'{"NodeNameToVictims": {"a": {"NumPDBViolations": 9223372036854775808}}}'),
    ],
)
def test_an_integer_beyond_its_type_is_refused(decoder: Decoder[Any], body: bytes) -> None:
    """A number that does not fit the API's int32 or int64 is a DecodeError, as it is for Go."""
    with pytest.raises(DecodeError):
        decoder(body)


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xa0\x80", rb"\ud800", rb"\udc00\ud800"])
def test_no_text_can_be_decoded_that_cannot_be_encoded(name: bytes) -> None:
    """Bad UTF-8 and half a surrogate pair, which no answer could echo, are refused on the way in."""
    with pytest.raises(DecodeError):
        decode_extender_args(b'{"NodeNames": ["' + name + b'"]}')


def test_items_of_a_list_are_left_undecoded() -> None:
    """A page of a list, and an event's object, keep their items as the bytes that arrived."""
    items = decode_object_list(b'{"items": [{"a":  1}, 2]}').items
    assert [bytes(item) for item in items or ()] == [b'{"a":  1}', b"2"]
    assert bytes(decode_watch_event(b'{"type": "ADDED", "object": {"a":  1}}').object) == b'{"a":  1}'
    assert bytes(decode_watch_event(b"{}").object) == b"null"


def test_encode_writes_plain_values() -> None:
    """Dicts, lists and scalars come out as compact UTF-8 JSON."""
    assert encode({"names": ["ä", 1, None, True]}) == '{"names":["ä",1,null,true]}'.encode()


def test_encode_plain_writes_what_encode_struct_does() -> None:
    """A struct of plain values comes out the same by either way."""
    result = FilterResult(node_names=["ä"], failed_nodes={"b": "full"}, error="late")
    assert encode_plain(result) == encode_struct(result)


def test_encode_struct_uses_the_wire_names() -> None:
    """Structs, one or many, come out under the names that Kubernetes reads."""
    assert encode_struct(BindingResult(error="late")) == b'{"Error":"late"}'
    scores = [HostPriority(host="a", score=10)]
    assert json.loads(encode_struct(scores)) == [{"Host": "a", "Score": 10}]
