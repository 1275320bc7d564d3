"""The Kubernetes API server, as Muster talks to it: credentials, requests, watches that survive, and the writes.

The only package that may know the `kubernetes` client or aiohttp, and of its modules only `transport`, `session` and
`credentials` do. What the objects mean and what is decided about them lives elsewhere: here bytes become calls of
`extender.control.ports.EventSink`, and calls of `extender.control.ports.ClusterApi` become requests.
"""
