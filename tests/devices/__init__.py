"""Specification of `extender.devices`: what kube-scheduler's allocator does with the same devices and claims."""
