"""Tests of the model of kube-scheduler, with an extender that follows a script."""
