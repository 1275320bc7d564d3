"""A real Kubernetes control plane on loopback, for tests, benchmarks and `make cluster`; not part of the wheel.

Here live the build of etcd, kube-apiserver, kube-scheduler and kwok from their published modules, the processes that
run them, the credentials that connect them and a small vocabulary (nodes, gangs, pods) to tell stories with. Nothing
here knows how Muster decides: Muster is one more process with a URL and a kubeconfig; `extender` is never imported.
"""
