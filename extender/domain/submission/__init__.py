"""Objects that somebody thinks of submitting, and the pods that their controllers would make of them.

Pure values: nothing here looks at the cluster, and nothing of it is ever written there. What no function of the object
alone can say (webhooks, runtimes that live in the cluster) is refused with a reason, not guessed.
"""
