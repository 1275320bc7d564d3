"""What plays, studies and converts: simulation, studies, traces, replay and tools. Nothing in `extender` imports it."""
