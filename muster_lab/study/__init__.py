"""How a scheduling policy fares on a trace of days: the admission itself, without API server, HTTP or event loop.

Here live the policies that are compared, the player that drives the real admission through a trace, the fluid schedule
that bounds what any policy could do, and the figures that come of it. Nothing here decides who starts when: that is
`admission/`, and a study of a scheduler of its own would say nothing about Muster. Muster with everything around it is
what `simulation/simulate.py` plays, at a thousandth of the speed.
"""
