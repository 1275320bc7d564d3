"""Stories on a real etcd, kube-apiserver and kube-scheduler: the judge of what the rest of the tests assume."""
