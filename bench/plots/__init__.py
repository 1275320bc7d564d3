"""Plots of what `make bench` measured, as SVG: what `make plots` runs.

Here live the reading of its JSON, what each plot shows and how it is drawn. Nothing is measured here: a figure that the
results lack is named together with the command that measures it. Equal results give equal files, byte for byte.
"""
