"""Fingerprints are those that exporters write, and say whose amounts `available` reflects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.hardware.fingerprint import fingerprint, vouches, xxh64
from extender.objects.pod import Pod, Shape
from extender.objects.requests import ContainerRequest, Stage
from tests.builders import GPU, pod
from tests.hardware.nodes import topology

#: Source: github.com/k8stopologyawareschedwg/podfingerprint testdata/compat-tiny-3pods-1ns, compat-small-10pods-3ns.
TINY = [("production", name) for name in ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")]
SMALL = [
    ("analytics", "controller-69dkj"),
    ("kube-public", "subscriber-tq6v7"),
    ("kube-public", "transformer-hfbng"),
    ("kube-public", "validator-c6pn5"),
    ("kube-system", "proxy-wszrd"),
    ("middleware", "processor-jkrl4"),
    ("network", "gateway-vsll5"),
    ("network", "importer-kzdfr"),
    ("network", "importer-q5vt9"),
    ("staging", "prometheus-bwgbn"),
]


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"as", 0, 0x1C330FB2D66BE179),
        (b"asdf", 0, 0x415872F599CEA71E),
        (b"Call me Ishmael. Some years ago--never mind how long precisely-", 0, 0x02A2E85470D6FD96),
    ],
)
def test_the_hash_is_xxh64(data: bytes, seed: int, expected: int) -> None:
    """Published values of XXH64, shorter and longer than a stripe of 32 bytes."""
    assert xxh64(data, seed) == expected


@pytest.mark.parametrize(
    ("pods", "expected"), [(TINY, "pfp0v001607b76a0e9d3aeb4"), (SMALL, "pfp0v001567144e4a561bb5a")]
)
def test_fingerprints_are_those_of_the_exporter(pods: list[tuple[str, str]], expected: str) -> None:
    """The library's own golden values, in any order of the pods."""
    assert fingerprint(pods) == fingerprint(reversed(pods)) == expected


def test_a_topology_vouches_for_exactly_its_pods() -> None:
    """One pod more or less, or no fingerprint at all, and `available` says nothing."""
    pods = [pod("a", 1), pod("b", 2)]
    known = replace(topology(), fingerprint=fingerprint(("default", p.name) for p in pods))
    assert vouches(known, pods)
    assert not vouches(known, pods[:1])
    assert not vouches(known, [*pods, pod("c")])
    assert not vouches(topology(), [])


def with_shape(name: str, *requests: tuple[str, int], guaranteed: bool = False, stage: Stage = Stage.APP) -> Pod:
    """Build a pod of one container."""
    return pod(name, shape=Shape(requests, containers=(ContainerRequest(requests, stage),), guaranteed=guaranteed))


def test_pods_that_hold_nothing_alone_may_be_left_out() -> None:
    """By the method with-exclusive-resources only devices of zones, and CPUs and memory of Guaranteed pods, count."""
    counted = [
        with_shape("gpu", (GPU, 1)),
        with_shape("cpus", ("cpu", 2000), guaranteed=True),
        with_shape("memory", ("cpu", 500), ("memory", 1), guaranteed=True),
        pod("single", shape=Shape(((GPU, 1),))),
    ]
    others = [
        with_shape("shared", ("cpu", 2000)),
        with_shape("fraction", ("cpu", 500), guaranteed=True),
        with_shape("nowhere", ("vendor.com/nic", 1)),
        with_shape("over", (GPU, 1), stage=Stage.INIT),
    ]
    signed = fingerprint(("default", p.name) for p in counted)
    node = replace(topology(), fingerprint=signed, fingerprint_method="with-exclusive-resources")
    assert vouches(node, [*others, *counted])
    assert not vouches(replace(node, fingerprint_method="all"), [*others, *counted])
