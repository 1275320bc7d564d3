"""How an object is called."""

from __future__ import annotations

from extender.domain.objectref import ObjectRef


def test_objects_are_named_with_their_kind() -> None:
    """An object of the cluster has no namespace, and one of the core no group."""
    assert str(ObjectRef("v1", "Pod", "default", "a", "u")) == "Pod default/a"
    assert str(ObjectRef("kai.scheduler/v1alpha1", "Topology", "", "t", "u")) == "Topology t"
    assert ObjectRef("v1", "Pod", "default", "a", "u").group == ""
    assert ObjectRef("kai.scheduler/v1alpha1", "Topology", "", "t", "u").group == "kai.scheduler"
