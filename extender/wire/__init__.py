"""The bytes that come and go: the extender protocol and the Kubernetes objects that Muster reads.

Structs here mirror the wire and nothing else: every field may be absent or null, no field is judged. What an object
*means* is decided in `extender.domain`. This is the only package that uses msgspec and orjson for foreign input.
"""
