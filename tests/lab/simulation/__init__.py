"""Tests of the simulation: virtual time, the cluster in memory, the model of kube-scheduler, scenarios and results."""
