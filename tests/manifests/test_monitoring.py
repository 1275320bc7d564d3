"""Alert and recording rules, the Grafana dashboard, and what finds them in a cluster."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.control.health import Mode
from extender.kube.watch import WatchFailure
from extender.ledger.effects import EvictionReason
from extender.objects.reason import Reason
from extender.settings import Settings
from localcluster.build import built_binaries
from localcluster.programs import Binary
from tests.docs.conftest import read_page
from tests.manifests.conftest import MANIFESTS, ROOT, Manifest, load
from tests.manifests.promql import TARGET_LABELS, exposed_labels, grouped_by, selections

MONITORING = MANIFESTS / "monitoring"
CASES = Path(__file__).parent / "rules"

(PROMETHEUS_RULE,) = load("monitoring/prometheusrule.yaml")
RULES: list[Manifest] = [rule for group in PROMETHEUS_RULE["spec"]["groups"] for rule in group["rules"]]
ALERTS: dict[str, Manifest] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED: dict[str, Manifest] = {rule["record"]: rule for rule in RULES if "record" in rule}
DASHBOARD: Manifest = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
PANELS: list[Manifest] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

#: Which words a label can have, by metric.
WORDS: dict[tuple[str, str], type[StrEnum]] = {
    ("muster_gangs_waiting", "reason"): Reason,
    ("muster:gangs_waiting:leader", "reason"): Reason,
    ("muster_evictions_total", "reason"): EvictionReason,
    ("muster_watch_restarts_total", "cause"): WatchFailure,
    ("muster_degraded", "state"): Mode,
}
#: Sections of an alert's page, in this order.
PARTS = ["Meaning", "Impact", "Diagnose", "Fix"]

Promtool = Callable[..., str]


@pytest.fixture(scope="module")
def promtool() -> Promtool:
    """Return what runs promtool, built from its Go module, and returns what it says; it fails with that."""
    executable = built_binaries((Binary.PROMTOOL,))[Binary.PROMTOOL]

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([executable, *arguments], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        return done.stdout

    return run


def panel_expressions() -> list[str]:
    """Return the expressions of all panels, with values in place of the dashboard's variables."""
    expressions = (target["expr"] for panel in PANELS for target in panel["targets"])
    values = {"$namespace": "muster-system", "$queue": ".*", "$__range": "6h"}
    return [re.sub(r"\$\w+", lambda found: values[found.group()], expression) for expression in expressions]


def test_rules_are_sound(promtool: Promtool) -> None:
    """Promtool finds nothing wrong with the rules, as Prometheus itself would read them."""
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "--lint=all", MONITORING / "rules.yaml")


def test_alerts_fire_when_they_should_and_only_then(promtool: Promtool) -> None:
    """Promtool plays each case, and at each moment exactly the alerts fire that the case names."""
    files = sorted(CASES.glob("*.yaml"))
    assert promtool("test", "rules", *files).count("SUCCESS") == len(files)


def test_each_alert_has_a_case_in_which_it_fires_and_a_moment_in_which_it_does_not() -> None:
    """A case is named after the alert that it is about; each alert fires in one, and is silent at another time."""
    moments: dict[str, set[bool]] = {name: set() for name in ALERTS}
    for file in CASES.glob("*.yaml"):
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            about = case["name"].partition(",")[0]
            for asked in case.get("promql_expr_test", []):
                fired = {sample["labels"] for sample in asked["exp_samples"]}
                moments[about].add(f'{{alertname="{about}"}}' in fired)
    assert [name for name, seen in moments.items() if seen != {True, False}] == []


def test_plain_rules_are_those_of_the_operator() -> None:
    """rules.yaml is the spec of the PrometheusRule, comments included, made as the latter's head says."""
    text = (MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8")
    _, _, spec = text.partition("\nspec:\n")
    plain = "".join(line.removeprefix("  ") for line in spec.splitlines(keepends=True))
    assert (MONITORING / "rules.yaml").read_text(encoding="utf-8") == plain


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_is_and_where_to_read_on(name: str) -> None:
    """It has a severity, a summary, a description with figures, and a section of the page about alerts."""
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"warning", "critical"}
    said = alert["annotations"]
    assert not said["summary"].endswith(".")
    assert said["description"].endswith(".")
    assert re.search(r"\$value|\d|minute|hour", said["description"])
    page, _, anchor = said["runbook_url"].partition("#")
    assert anchor == name.lower()
    sections = read_page(ROOT / page).sections
    assert re.findall(r"^\*\*(\w+)\.\*\*", sections[name], re.MULTILINE) == PARTS


def test_the_page_about_alerts_describes_no_others() -> None:
    """An alert that is no more has no section either."""
    sections = read_page(ROOT / "docs" / "alerts.md").sections
    assert [heading for heading in sections if heading.startswith("Muster")] == list(ALERTS)


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in RULES), *panel_expressions()])
def test_expressions_ask_for_what_there_is(expression: str) -> None:
    """Each series is one that Muster exposes or a rule records, selected and grouped by labels that it has."""
    exposed = exposed_labels()
    recorded = {name: frozenset(grouped_by(rule["expr"])) for name, rule in RECORDED.items()}
    known = {**exposed, **recorded}
    selected = list(selections(expression))
    assert selected
    for selection in selected:
        assert selection.labels <= known[selection.name] | TARGET_LABELS, selection
        for label in selection.labels:
            if (words := WORDS.get((selection.name, label))) is not None:
                assert selection.words(label) <= set(words), selection
    labels = frozenset[str]().union(*(known[selection.name] for selection in selected))
    assert grouped_by(expression) <= labels | TARGET_LABELS


def test_thresholds_fit_the_settings() -> None:
    """Calls count as almost too late between the time that binds may wait and kube-scheduler's patience."""
    found = re.search(r"> ([\d.]+)$", ALERTS["MusterCallsNearTimeout"]["expr"])
    assert found is not None
    settings = Settings()
    assert settings.bind_hold_seconds < float(found.group(1)) < settings.http_timeout_seconds
    assert f"{settings.http_timeout_seconds:.0f} s" in ALERTS["MusterCallsNearTimeout"]["annotations"]["description"]
    assert (
        f"({settings.stale_after_seconds:.0f} s by default)" in ALERTS["MusterCacheStale"]["annotations"]["description"]
    )


def test_expressions_of_the_dashboard_are_sound(promtool: Promtool, tmp_path: Path) -> None:
    """Promtool reads the expression of each panel as it would one of a rule."""
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(panel_expressions())]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in promtool("check", "rules", "--lint=none", file)


def test_every_metric_is_on_the_dashboard() -> None:
    """Whatever Muster exposes can be looked at; of a histogram the buckets, or the count."""
    shown = {selection.name for text in panel_expressions() for selection in selections(text)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed_labels()}
    assert families - {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown} == set()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    """It has a title, a description in sentences, a unit and a legend, and asks the chosen data source."""
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    for asked in (panel, *panel["targets"]):
        assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["legendFormat"] for target in panel["targets"])
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)


def test_the_dashboard_hangs_together() -> None:
    """Panels have numbers of their own and do not overlap; the variables are those that the expressions use."""
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    cells = [
        (x, y)
        for panel in everything
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__range", "__all"}
    assert used == variables
    rows = [panel["gridPos"]["y"] for panel in everything if panel["type"] == "row"]
    assert all(above < below for above, below in pairwise(rows))


def test_the_folder_is_applied_whole() -> None:
    """Kustomize takes every file but the plain rules; Grafana's sidecar finds the dashboard by its label."""
    kustomization = yaml.safe_load((MONITORING / "kustomization.yaml").read_text(encoding="utf-8"))
    (dashboard,) = kustomization["configMapGenerator"]
    taken = {*kustomization["resources"], *(file.rpartition("=")[2] for file in dashboard["files"])}
    assert taken == {path.name for path in MONITORING.iterdir()} - {"kustomization.yaml", "rules.yaml"}
    assert kustomization["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
    assert (MONITORING / "grafana-dashboard.json").stat().st_size < 900_000  # a ConfigMap holds 1 MiB


def test_the_monitor_scrapes_the_pods_of_the_deployment(pod_spec: Manifest) -> None:
    """PodMonitor and Deployment agree on namespace, labels and the name of the port; rules look back 5 minutes."""
    monitors = load("monitoring/podmonitor.yaml")
    (deployment,) = load("deployment.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    scraped = set()
    for monitor in monitors:
        assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        scraped.add(endpoint["port"])
        assert endpoint["path"] == "/metrics"
        assert int(endpoint["interval"].removesuffix("s")) * 4 <= 60  # four samples in the shortest `for`
    assert scraped == {port["name"] for container in pod_spec["containers"] for port in container["ports"]}


def test_the_kube_schedulers_metrics_need_no_token(containers: dict[str, Manifest]) -> None:
    """A PodMonitor has none to show; nothing else is opened, above all not /metrics/resources, which names pods."""
    (allowed,) = (
        argument.partition("=")[2].split(",")
        for argument in containers["kube-scheduler"]["command"]
        if argument.startswith("--authorization-always-allow-paths=")
    )
    assert sorted(allowed) == ["/healthz", "/livez", "/metrics", "/readyz"]


def test_the_rule_object_is_one_that_the_operator_reads() -> None:
    """It has no field that a PrometheusRule of monitoring.coreos.com/v1 lacks; durations are as its CRD asks."""
    assert (PROMETHEUS_RULE["apiVersion"], PROMETHEUS_RULE["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert PROMETHEUS_RULE.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert PROMETHEUS_RULE["spec"].keys() == {"groups"}
    names = [group["name"] for group in PROMETHEUS_RULE["spec"]["groups"]]
    assert len(set(names)) == len(names)
    for group in PROMETHEUS_RULE["spec"]["groups"]:
        assert group.keys() <= {"name", "interval", "labels", "limit", "query_offset", "rules"}
    for rule in RULES:
        assert rule.keys() <= {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
        assert re.fullmatch(r"(\d+(ms|[smhdwy]))+", rule.get("for", "1m"))
