"""How long tests wait for what runs in real time: until it certainly hangs, however slow or busy the machine is."""

from __future__ import annotations

#: Seconds after which a program, a connection or a thread that a test waits for hangs. A quiet machine takes a
#: hundredth of it at most; a bound that Muster has to keep is never tested by this clock.
HANGS = 300.0
