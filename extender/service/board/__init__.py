"""What people see of a whole cluster: gangs, nodes, queues, events and free capacity, as plain values."""
