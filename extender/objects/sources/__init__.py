"""Sources of gangs, one module each: how its pods are told, which objects describe its gangs, and what pods they make.

`table` has a row for each. A source knows its own API and nothing of the others, but for Volcano, whose PodGroups pick
subgroups by the labels of other operators.
"""
