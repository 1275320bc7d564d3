"""Measurements of Muster against its budget: what `make bench` runs. Figures are written in docs/measurements.md."""
