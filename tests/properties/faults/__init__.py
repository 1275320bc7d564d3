"""A whole cluster under random faults, in virtual time: what is injected, how it is played, told and made smaller.

The product runs as it is: controller, reflectors, writer, verbs, and the model of kube-scheduler. Only sockets and time
are replaced, so that every step of every process can be delayed, lost or be its last. Nothing here judges: that is
`tests.judge`, from the API server's history alone. Nothing here is left to chance: a story says all that happens.
"""
