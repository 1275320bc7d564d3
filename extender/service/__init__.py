"""Muster over HTTP: the extender's verbs, health and metrics. The only package that knows FastAPI.

Nothing is decided here: a handler reads bytes, asks the controller, and writes bytes.
"""
