"""A model of kube-scheduler 1.37 with default plugins, one profile and at most one extender.

It follows the real one's source where Muster can tell the difference: the three queues and what wakes a pod, the serial
scheduling cycle, nominations, the extender protocol as JSON, assumed pods, binding in the background, preemption by dry
run, and the words of its events. It decides nothing for Muster and shares no state with it.
"""
