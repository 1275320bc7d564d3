"""docs/operations.md against the metrics and settings of the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from typer.testing import CliRunner

from extender.admission.events import Outcome
from extender.cli.commands import app
from extender.control.metrics import Metrics
from extender.control.outbox import Urgency
from extender.control.ports import WatchedKind
from extender.explain.documents import GangPhase
from extender.kube.watch import WatchFailure
from extender.ledger.effects import EvictionReason
from extender.settings import Settings
from muster_lab.report.telemetry import Telemetry, telemetry_csv
from tests.docs.conftest import PAGES, Page

#: A row of the table of metrics: name, type, labels.
_ROW = re.compile(r"^\| `(muster_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)
_METRIC = re.compile(r"\bmuster_(?!lab\b)[a-z_]+")
#: Words in backticks that look like a setting.
_SETTING = re.compile(r"[a-z]+(?:_[a-z]+)*_(?:seconds|per_second|bytes|names|concurrency)")


@pytest.fixture
def operations(page: Callable[[str], Page]) -> Page:
    """Return the page for operators."""
    return page("docs/operations.md")


def _exposed(metric: Metric) -> str:
    """Return the name under which a metric is queried."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_in_the_table_and_every_row_is_a_metric() -> None:
    """The table of metrics lists exactly what is registered, each with its type."""
    (operations,) = (page for page in PAGES if str(page) == "docs/operations.md")
    registered = {_exposed(metric): metric.type for metric in Metrics().registry.collect()}
    assert {name: kind for name, kind, _ in _ROW.findall(operations.prose)} == registered


def test_every_row_names_the_labels_of_its_metric(operations: Page) -> None:
    """The table names each metric's labels, in the order of the code."""
    metrics = Metrics()
    labels = {
        _exposed(metric): tuple(instrument._labelnames)  # noqa: SLF001 - the client offers no other way to ask
        for instrument in vars(metrics).values()
        if instrument is not metrics.registry and instrument is not metrics.recent
        for metric in instrument.describe()
    }
    told = {name: tuple(re.findall(r"`(\w+)`", cell)) for name, _, cell in _ROW.findall(operations.prose)}
    assert told == labels


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_page_names_a_metric_that_does_not_exist(page: Page) -> None:
    """Alerts and examples use metrics by the names under which they are exposed."""
    names: set[str] = set()
    for metric in Metrics().registry.collect():
        name = _exposed(metric)
        names.add(name)
        if metric.type == "histogram":
            names |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    assert set(_METRIC.findall(page.text)) - names - {"muster_"} == set()


@pytest.mark.parametrize(
    "values", [GangPhase, Outcome, WatchedKind, WatchFailure, EvictionReason], ids=lambda values: values.__name__
)
def test_every_value_of_a_label_is_explained(operations: Page, values: type[StrEnum]) -> None:
    """Whoever finds a label's value in a query finds the word on the page."""
    assert _unexplained(values, operations) == []


def test_every_kind_of_write_is_explained(operations: Page) -> None:
    """The same for the kinds of writes; Bindings are counted beside the outbox's three."""
    assert _unexplained([*(urgency.kind for urgency in Urgency), "binding"], operations) == []


def _unexplained(values: Iterable[str], page: Page) -> list[str]:
    return [value for value in values if value not in page.code]


def test_the_program_documents_every_setting() -> None:
    """`muster settings` prints every setting, each under a comment; that is the reference the page points to."""
    result = CliRunner().invoke(app, ["settings"])
    assert result.exit_code == 0
    assert list(yaml.safe_load(result.stdout)) == list(Settings.model_fields)
    assert all(re.search(rf"^# .+\n{name}: ", result.stdout, re.MULTILINE) for name in Settings.model_fields)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_page_names_a_setting_that_does_not_exist(page: Page) -> None:
    """A word in backticks that looks like a setting is one, or a metric, or a column of a simulation's table."""
    columns = telemetry_csv(Telemetry(0.0, 0, {}, ())).strip().split(",")
    named = {word for word in page.code if _SETTING.fullmatch(word) and not word.startswith("muster_")}
    assert named - set(Settings.model_fields) - set(columns) == set()
