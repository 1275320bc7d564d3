"""Tests of `localcluster` that need no control plane: building, processes, credentials, objects."""
