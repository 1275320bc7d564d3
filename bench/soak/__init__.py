"""A soak: Muster on a real control plane under steady churn, watched for what only time shows.

`churn` makes and removes the load, `sampling` reads Muster from outside, `trend` judges the samples (pure), `run` puts
them together. Nothing here looks into Muster's process: what is measured is what its metrics and the kernel say.
"""
