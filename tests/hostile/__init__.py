"""Text that attacks its reader, brought through every output: terminals, logs, metrics, Events, CSV, HTML, JSON."""
