"""What objects say of the nodes' hardware, on its way to where GPUs and zones are counted."""

from __future__ import annotations

from collections.abc import Mapping

from extender.cluster.occupancy import Occupancy
from extender.domain.devices import DeviceReport
from extender.domain.keys import GPU_PARTITIONS
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.reason import Problem
from extender.fabric.calibration import read_calibration
from extender.fabric.links import LinksError, read_gpu_facts
from extender.fabric.partitions import read_partitions
from extender.fabric.products import Products
from extender.numa.nodetopology import NodeTopology


class Hardware:
    """Take in NUMA zones, partitions of GPUs and measured bandwidths, and hand on what is new.

    Each method tells whether anything changed.
    """

    def __init__(self, occupancy: Occupancy) -> None:
        """Hand on to `occupancy`."""
        self._occupancy = occupancy
        self._annotations: dict[str, Mapping[str, str]] = {}
        self._topologies: dict[str, NodeTopology] = {}
        self._reports: dict[str, DeviceReport] = {}
        self._measured: tuple[ObjectRef, Mapping[str, str]] | None = None
        self._problems: dict[tuple[str, str], tuple[ObjectRef, tuple[Problem, ...]]] = {}

    def problems(self) -> dict[ObjectRef, tuple[Problem, ...]]:
        """Return what is wrong with the objects that describe hardware."""
        return dict(self._problems.values())

    def put_node(self, node: Node) -> None:
        """Look through the annotations of a node that was added or changed; the occupancy sees the node itself."""
        if self._annotations.get(node.name, {}) == node.annotations:
            return
        self._annotations[node.name] = node.annotations
        self._find("Node", ObjectRef("v1", "Node", "", node.name, node.uid), read_gpu_facts(node.annotations).problems)

    def drop_node(self, name: str) -> None:
        """Forget a node's annotations."""
        self._annotations.pop(name, None)
        self._problems.pop(("Node", name), None)

    def put_topology(self, topology: NodeTopology) -> bool:
        """Take in a node's NUMA zones."""
        if self._topologies.get(topology.node) == topology:
            return False
        self._topologies[topology.node] = topology
        self._occupancy.put_topology(topology)
        return True

    def drop_topology(self, name: str) -> bool:
        """Forget the NUMA zones of the node called `name`."""
        self._occupancy.drop_topology(name)
        return self._topologies.pop(name, None) is not None

    def put_report(self, report: DeviceReport) -> bool:
        """Take in what is said of a node's GPUs; of a table that cannot be read nothing counts."""
        if self._reports.get(report.node) == report:
            return False
        self.drop_report(report.node)
        self._reports[report.node] = report
        if report.partitions:
            try:
                self._occupancy.put_partitions(report.node, read_partitions(report.partitions))
            except LinksError as error:
                problem = Problem(f"metadata.annotations[{GPU_PARTITIONS}]", str(error))
                self._find("Device", report.about, (problem,))
        return True

    def drop_report(self, name: str) -> bool:
        """Forget what was said of the GPUs of the node called `name`."""
        self._occupancy.drop_partitions(name)
        self._problems.pop(("Device", name), None)
        return self._reports.pop(name, None) is not None

    def put_calibration(self, about: ObjectRef, data: Mapping[str, str]) -> bool:
        """Take in measured bandwidths."""
        if self._measured == (about, data):
            return False
        self._measured = (about, data)
        products = Products(read_calibration(data))
        self._find("ConfigMap", about, products.problems)
        self._use(products)
        return True

    def drop_calibration(self) -> bool:
        """Forget the measured bandwidths."""
        if self._measured is None:
            return False
        about, _data = self._measured
        self._measured = None
        self._problems.pop(("ConfigMap", about.name), None)
        self._use(Products())
        return True

    def _use(self, products: Products) -> None:
        """Predict with another table, unless it says the same."""
        if products != self._occupancy.products:
            self._occupancy.products = products

    def _find(self, kind: str, about: ObjectRef, problems: tuple[Problem, ...]) -> None:
        if problems:
            self._problems[kind, about.name] = (about, problems)
        else:
            self._problems.pop((kind, about.name), None)
