"""Converters: queues of other systems, measured bandwidths, the configuration of kube-scheduler."""
