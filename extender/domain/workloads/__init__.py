"""What the objects of other operators mean for gangs: which of the pods that they make must start together.

One module for each operator turns its object into a `PodGroup`; `roster` has what they share. What pods say themselves
is read in `extender.domain.membership`, and nothing is known here of where the objects come from.
"""
