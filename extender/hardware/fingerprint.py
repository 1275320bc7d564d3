"""The fingerprint by which an exporter says which pods its amounts reflect: `pfp0v001`.

Source: github.com/k8stopologyawareschedwg/podfingerprint, podfingerprint.go. The hash is XXH64, as its specification
(github.com/Cyan4973/xxHash, doc/xxhash_spec.md) describes it; the inputs are short and few, so plain Python will do.
A pod is its namespace and name: one that came back under the same name, as StatefulSets and Jobs make them, is the
same to a fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extender.objects.nodetopology import NodeTopology, is_device, is_memory
from extender.objects.pod import Pod
from extender.objects.requests import ContainerRequest, Stage

PREFIX = "pfp0v001"

#: `nodeTopologyPodsFingerprintMethod` of exporters that leave out pods without CPUs, memory or devices of their own.
_EXCLUSIVE_ONLY = "with-exclusive-resources"

_MASK = 2**64 - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_LANES = 4
_WORD = 8
_STRIPE = _LANES * _WORD
_HALF_WORD = 4
_MILLI = 1000


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of a set of pods, given as (namespace, name) in any order."""
    hashes = sorted(xxh64(name.encode(), xxh64(namespace.encode())) for namespace, name in pods)
    return f"{PREFIX}{xxh64(b''.join(number.to_bytes(_WORD, 'little') for number in hashes)):016x}"


def vouches(topology: NodeTopology, pods: Iterable[Pod]) -> bool:
    """Tell whether the `available` amounts of a topology reflect exactly `pods`, those that hold the node."""
    counted = pods if topology.fingerprint_method != _EXCLUSIVE_ONLY else _exclusive(topology, pods)
    return topology.fingerprint != "" and topology.fingerprint == fingerprint((p.namespace, p.name) for p in counted)


def _exclusive(topology: NodeTopology, pods: Iterable[Pod]) -> Iterator[Pod]:
    """Keep the pods that hold something alone once their init containers are through.

    Source: scheduler-plugins resourcerequests.AreExclusiveForPod.
    """
    for pod in pods:
        containers = pod.shape.containers or (ContainerRequest(pod.shape.requests),)
        asked = [request for c in containers if c.stage is not Stage.INIT for request in c.requests]
        if any(_alone(topology, resource, amount, guaranteed=pod.shape.guaranteed) for resource, amount in asked):
            yield pod


def _alone(topology: NodeTopology, resource: str, amount: int, *, guaranteed: bool) -> bool:
    if is_device(resource):
        return topology.lists(resource)
    return guaranteed and (is_memory(resource) or (resource == "cpu" and amount % _MILLI == 0))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 hash of `data`."""
    first, second, third, _, fifth = _PRIMES
    rest = len(data) - len(data) % _STRIPE
    if rest:
        lanes = [(seed + first + second) & _MASK, (seed + second) & _MASK, seed, (seed - first) & _MASK]
        for start in range(0, rest, _STRIPE):
            for lane in range(_LANES):
                lanes[lane] = _round(lanes[lane], _word(data, start + lane * _WORD))
        result = sum(_rotated(value, by) for value, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for value in lanes:
            result = ((result ^ _round(0, value)) * first + _PRIMES[3]) & _MASK
    else:
        result = (seed + fifth) & _MASK
    result = (result + len(data)) & _MASK
    return _avalanche(_tail(result, data, rest), second, third)


def _tail(result: int, data: bytes, start: int) -> int:
    """Mix in what is left of the data after whole stripes: words, half a word, bytes."""
    first, second, third, fourth, fifth = _PRIMES
    while start + _WORD <= len(data):
        result = (_rotated(result ^ _round(0, _word(data, start)), 27) * first + fourth) & _MASK
        start += _WORD
    if start + _HALF_WORD <= len(data):
        half = int.from_bytes(data[start : start + _HALF_WORD], "little")
        result = (_rotated(result ^ (half * first & _MASK), 23) * second + third) & _MASK
        start += _HALF_WORD
    for byte in data[start:]:
        result = _rotated(result ^ (byte * fifth & _MASK), 11) * first & _MASK
    return result


def _avalanche(result: int, second: int, third: int) -> int:
    result = (result ^ result >> 33) * second & _MASK
    result = (result ^ result >> 29) * third & _MASK
    return result ^ result >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


def _word(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + _WORD], "little")


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK
