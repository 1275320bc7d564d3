"""A cluster in memory, in virtual time, scheduled by a model of kube-scheduler that speaks the real extender protocol.

Here live the event loop whose time jumps, the API server's store and watches, kubelet and workload, scenarios and what
comes of them. Muster itself is the real thing: the controller is driven through its ports, and through its HTTP
application, which the caller passes in. Nothing here knows FastAPI, the terminal or the Kubernetes client.
"""
