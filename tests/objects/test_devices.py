"""Koordinator's reports of devices."""

from __future__ import annotations

from extender.objects.devices import decode_device, read_device
from extender.objects.meta import encode


def test_a_report_has_the_name_of_its_node_and_its_partitions() -> None:
    """The table of partitions stands in an annotation."""
    table = '{"2":[{"minors":[0,1]}]}'
    body = {"metadata": {"name": "n", "uid": "u", "annotations": {"scheduling.koordinator.sh/gpu-partitions": table}}}
    report = read_device(decode_device(encode(body)))
    assert (report.node, report.partitions, str(report.about)) == ("n", table, "Device n")


def test_a_report_may_say_nothing() -> None:
    """A Device without annotations has no partitions."""
    assert read_device(decode_device(b"{}")).partitions == ""
