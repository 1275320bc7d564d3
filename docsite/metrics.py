"""The reference of metrics: what is registered, with type, labels, buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase

from docsite.markdown import cell, code, codes, page, table
from extender.control.metrics import Metrics

_INTRO = """
Served on `/metrics`, in the text format of Prometheus. Amounts of resources are cores, bytes and counts; times are
seconds. No metric has a label for a pod, a gang or a node. What the values of the labels are, and what is worth an
alert, is on the page for [operations](../operations.md#metrics).
"""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric as it is queried: `buckets` are upper bounds (seconds), empty unless it is a histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    buckets: tuple[str, ...]


def instruments() -> Iterator[Instrument]:
    """Yield every registered metric, by name."""
    metrics = Metrics()
    values = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    named = {metric.name: value for value in values for metric in value.describe()}
    for metric in sorted(metrics.registry.collect(), key=lambda metric: metric.name):
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        value = named.get(metric.name)
        labels = () if value is None else tuple(value._labelnames)  # noqa: SLF001 - the client offers no other way to ask
        bounds = value._kwargs["buckets"] if isinstance(value, Histogram) else ()  # noqa: SLF001 - the same
        yield Instrument(name, metric.type, labels, metric.documentation, tuple(f"{bound:g}" for bound in bounds))


def render() -> str:
    """Return the page."""
    every = list(instruments())
    rows = [(code(each.name), each.kind, codes(each.labels), cell(each.text)) for each in every]
    buckets = [(code(each.name), ", ".join(each.buckets)) for each in every if each.buckets]
    return page(
        "Metrics",
        _INTRO,
        table(("metric", "type", "labels", "meaning"), rows),
        "## Buckets",
        "Upper bounds in seconds. A histogram is queried as `NAME_bucket`, `NAME_sum` and `NAME_count`.",
        table(("histogram", "buckets"), buckets),
    )
