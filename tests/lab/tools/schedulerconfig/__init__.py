"""Rules about a KubeSchedulerConfiguration: what is found, and that nothing is found in what is shipped."""
