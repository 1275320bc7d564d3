"""Tests of the wire structs, against JSON that Kubernetes itself wrote; `data/wire.go.txt` is how it was asked."""
