"""Partitions of the fabric manager, as Koordinator writes them."""

from __future__ import annotations

import json

import pytest

from extender.hardware.links import LinksError, Partitions, read_partitions

TABLE = {
    "4": [{"minors": [7, 4, 5, 6], "gpuLinkType": "NVLink", "allocationScore": 1}],
    "2": [{"minors": [2, 3], "ringBusBandwidth": "400Gi"}, {"minors": [0, 1]}],
}


def test_table_is_read_in_order() -> None:
    """Partitions come smallest first, then by their GPUs; what else the table says is passed over."""
    sets = read_partitions(json.dumps(TABLE)).sets
    assert sets == (frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5, 6, 7}))
    assert read_partitions("{}") == Partitions()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "cannot read a table of GPU partitions"),
        ('{"2": [{"minors": [1]}]}', "partition 0 of size '2' has the minors [1]"),
        ('{"2": [{"minors": [1, 1]}]}', "partition 0 of size '2' has the minors [1, 1]"),
        ('{"0": [{}]}', "partition 0 of size '0' has the minors []"),
        ('{"2": [{"minors": [1, 64]}]}', "has a minor outside 0 to 63"),
        ('{"2": [{"minors": [-1, 4]}]}', "has a minor outside 0 to 63"),
    ],
)
def test_bad_table_is_refused(text: str, said: str) -> None:
    """A table that cannot be meant is refused with the partition that is wrong."""
    with pytest.raises(LinksError) as refused:
        read_partitions(text)
    assert said in str(refused.value)
