"""What PromQL expressions of the shipped rules and dashboard refer to, and what there is to refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics import MetricWrapperBase

from extender.control.metrics import Metrics

#: What Prometheus and the operator add to every series of a scraped pod.
TARGET_LABELS = frozenset({"namespace", "job", "instance", "pod", "container", "endpoint"})

_SELECTOR = re.compile(r"\b(muster[_:][\w:]+)\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Selection:
    """A series that an expression selects, and by which values of which labels."""

    name: str
    matchers: tuple[tuple[str, str], ...]

    @property
    def labels(self) -> set[str]:
        """Return the labels that it is selected by."""
        return {label for label, _ in self.matchers}

    def words(self, label: str) -> set[str]:
        """Return the words among which the value of a label has to be; patterns of other kinds are not words."""
        alternatives = (value.split("|") for name, value in self.matchers if name == label)
        return {word for words in alternatives for word in words if re.fullmatch(r"\w+", word)}


def selections(expression: str) -> Iterator[Selection]:
    """Yield the series that an expression selects, those of recording rules included."""
    for name, inside in _SELECTOR.findall(expression):
        yield Selection(name, tuple((label, value) for label, _, value in _MATCHER.findall(inside)))


def grouped_by(expression: str) -> set[str]:
    """Return the labels by which an expression groups or joins."""
    return {label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",") if label.strip()}


def exposed_labels() -> Mapping[str, frozenset[str]]:
    """Return the labels of each series that Muster exposes, under the names that are queried."""
    metrics = Metrics()
    found: dict[str, frozenset[str]] = {}
    for instrument in vars(metrics).values():
        if not isinstance(instrument, MetricWrapperBase):
            continue
        labels = frozenset(instrument._labelnames)  # noqa: SLF001 - the client offers no other way to ask
        (described,) = instrument.describe()
        if described.type == "counter":
            found[f"{described.name}_total"] = labels
        elif described.type == "histogram":
            found |= {f"{described.name}_{part}": labels for part in ("count", "sum")}
            found[f"{described.name}_bucket"] = labels | {"le"}
        else:
            found[described.name] = labels
    return found
