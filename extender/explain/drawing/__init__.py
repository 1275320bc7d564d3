"""Pictures of the cluster as SVG: its tree of domains, the GPUs of its nodes, and one gang on them.

Values in, text out. Who fills in the values knows the cluster; nothing here does, and nothing here reads or writes.
"""
