"""Parts of GPUs by HAMi: what its register says that a node shares out."""

from __future__ import annotations

import json

import pytest

from extender.objects.hami import GPU_CORES, GPU_MEMORY, GPU_MEMORY_PERCENTAGE, HAMI_PARTS, shared_out
from extender.objects.keys import HAMI_REGISTER
from extender.objects.node import decode_node, read_node
from tests.builders import node_json, written

LEGACY = "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,1,false:"
GPUS = [
    {"id": "GPU-a", "count": 10, "devmem": 81920, "devcore": 100, "type": "H100", "mode": "hami-core", "health": True},
    {"id": "GPU-b", "index": 1, "count": 10, "devmem": 81920, "devcore": 100, "health": True},
]


@pytest.mark.parametrize(
    ("register", "amounts"),
    [
        (json.dumps(GPUS), {GPU_MEMORY: 163840, GPU_MEMORY_PERCENTAGE: 200, GPU_CORES: 200}),
        (LEGACY, {GPU_MEMORY: 32768, GPU_MEMORY_PERCENTAGE: 100, GPU_CORES: 100}),
        ('[{"id": "GPU-a", "devmem": -1}]', {GPU_MEMORY_PERCENTAGE: 100}),
        (f'[{{"id": "GPU-a", "devmem": {2**62}}}]', {GPU_MEMORY: 2**47, GPU_MEMORY_PERCENTAGE: 100}),
        ("[]", {}),
        ("", {}),
        ("GPU-a,10", {}),
        ("[1]", {}),
    ],
)
def test_register_says_how_much_is_shared_out(register: str, amounts: dict[str, int]) -> None:
    """Memory and cores of all GPUs that are well add up; what cannot be read says nothing."""
    assert shared_out({HAMI_REGISTER: register}) == amounts
    assert HAMI_PARTS.issuperset(amounts)


def test_node_has_what_is_shared_out_unless_its_kubelet_says_otherwise() -> None:
    """The register is read where allocatable has nothing under the name; plain nodes have no such resource."""
    document = node_json("a")
    assert GPU_MEMORY not in read_node(decode_node(written(document))).allocatable
    document["metadata"]["annotations"] = {HAMI_REGISTER: json.dumps(GPUS)}
    document["status"]["allocatable"][GPU_CORES] = "50"
    node = read_node(decode_node(written(document)))
    assert (node.allocatable[GPU_MEMORY], node.allocatable[GPU_CORES]) == (163840, 50)
    document["status"]["allocatable"]["cpu"] = "many"
    assert not read_node(decode_node(written(document))).allocatable
