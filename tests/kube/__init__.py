"""The API server's side of the protocol as a script, and what `extender.kube` makes of it."""
