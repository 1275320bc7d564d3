"""asyncio around the admission: when it decides, which binds are held at the barrier, and what is written.

Everything that waits lives here; everything that decides lives in `extender.admission`, which never awaits. The outside
is described by the protocols in `ports`, so that the real API server and the simulated one are interchangeable.
"""
