"""Tests of the domain values, against what Kubernetes itself answers; `data/vectors.go.txt` is how it was asked."""
