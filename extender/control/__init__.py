"""asyncio around the admission: when it judges, who is held at the bind barrier, and what is written to the cluster.

Everything that waits lives here; everything that decides lives in `extender.admission`, which never awaits. The outside
is described by the protocols in `ports`, so that the real API server and the simulated one are interchangeable.
"""
