"""The study of policies in docs/studies.md: a synthetic trace of 10,000 gangs at three loads, its table and its plots.

`python -m bench.study run --into FOLDER` plays it and writes one JSON for each load, `draw` makes plots of those, and
`table` the tables in Markdown.
"""
