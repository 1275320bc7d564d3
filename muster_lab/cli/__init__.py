"""The laboratory's commands, which the entry points `muster.commands` plug into `muster`."""
