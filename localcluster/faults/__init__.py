"""Proxies on loopback that make a healthy network and a healthy server misbehave, by rules that a story states.

Here live the faults as values (`fault`), what a request is (`request`), rules that say which request meets which fault
(`rules`), and two proxies: `ApiProxy` between Muster and the API server, `VerbProxy` between kube-scheduler and Muster.
Nothing here knows what Muster decides, and no story is told here.
"""
