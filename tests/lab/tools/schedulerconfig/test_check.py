"""The rules, each by the shipped configuration with one thing changed, and what counts as a configuration at all."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster_lab.tools.schedulerconfig.check import NoConfigurationError, check_text
from muster_lab.tools.schedulerconfig.finding import Severity
from tests.lab.tools.schedulerconfig.cases import CASES, Case, election, extender, plugins, profile, top
from tests.lab.tools.schedulerconfig.conftest import SHIPPED, Change, brief, changed, expectations, find

_LEASE = "muster-system/muster"


def test_what_is_shipped_has_no_findings_but_that_stock_lacks_muster(shipped: tuple[str, str]) -> None:
    """The sample configuration is clean; the one without Muster is told so, and nothing else."""
    name, text = shipped
    (checked,) = check_text(text, expectations(lease=_LEASE if name == "muster.yaml" else None, replicas=2))
    assert brief(list(checked.findings)) == ([] if name == "muster.yaml" else [("error", "extenders")])
    assert checked.where == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_mistake_is_found_where_it_stands(case: Case) -> None:
    """One finding names the field, what happens and what to write instead."""
    found = [finding for finding in find(case.change) if finding.path == case.path]
    told = [finding for finding in found if case.words in f"{finding.problem} {finding.instead}"]
    assert [finding.severity.value for finding in told] == [case.severity]
    assert all(finding.problem and finding.instead for finding in found)


@pytest.mark.parametrize(
    "change",
    [
        extender(urlPrefix="http://localhost:10261/v1/"),
        extender(urlPrefix="http://[::1]:10261/v1"),
        extender(
            urlPrefix="https://muster.muster-system:10261/v1",
            enableHTTPS=True,
            tlsConfig={"caFile": "/ca", "certFile": "/crt", "keyFile": "/key"},
        ),
        extender(managedResources=[]),
        extender(httpTimeout="0.5m"),
        extender(tlsConfig=None, preemptVerb="/preempt"),
        top(podMaxBackoffSeconds=10, podInitialBackoffSeconds=1, parallelism=32, enableProfiling=False),
        top(clientConnection={"qps": -1, "burst": 2000}),
        top(percentageOfNodesToScore=None, profiles=[{"schedulerName": "muster", "percentageOfNodesToScore": 100}]),
        plugins("score", disabled=["ImageLocality"], enabled=["NodeResourcesFit"]),
        plugins("filter", disabled=["*"], enabled=["NodeResourcesFit"]),
        plugins("multiPoint", disabled=["*"], enabled=["NodeResourcesFit", "DefaultBinder"]),
        plugins("multiPoint", disabled=["DefaultPreemption"]),
        profile(pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]),
        election(resourceLock="leases", leaseDuration="5s", renewDeadline="4s", retryPeriod="0.5s"),
    ],
)
def test_what_does_not_break_gangs_is_not_found(change: Change) -> None:
    """Other ways to write the same, and settings that are none of Muster's business, are left alone."""
    assert find(change) == []


class TestToldOtherwise:
    """A configuration is held against what Muster is told, not against the defaults."""

    def test_another_port(self) -> None:
        """The shipped file does not fit a Muster on another port."""
        (finding,) = find(lambda _: None, port=9999)
        assert (finding.path, finding.problem) == (
            "extenders[0].urlPrefix",
            "goes to port 10261; Muster listens on 9999",
        )

    def test_other_scheduler_names(self) -> None:
        """Each name needs a profile, and each profile a name."""
        found = find(lambda _: None, scheduler_names=("a", "b"))
        assert brief(found) == [("error", "profiles[0].schedulerName"), ("error", "profiles"), ("error", "profiles")]

    def test_another_hold(self) -> None:
        """A longer hold needs a longer timeout."""
        (finding,) = find(lambda _: None, bind_hold_seconds=30.0, http_timeout_seconds=40.0)
        assert (finding.path, finding.instead) == ("extenders[0].httpTimeout", "40s")

    def test_another_lease(self) -> None:
        """Muster must look at the Lease that the kube-schedulers hold."""
        (finding,) = find(lambda _: None, lease="gpu/gang")
        assert finding.path == "leaderElection.resourceName"
        assert finding.instead == (
            f"resourceNamespace: gpu, resourceName: gang; or --scheduler-lease={_LEASE} for Muster"
        )

    @pytest.mark.parametrize("told", [{"replicas": 2}, {"lease": _LEASE}])
    def test_two_schedulers_without_leader_election(self, told: dict[str, Any]) -> None:
        """What is a warning for one replica is an error for two."""
        (finding,) = find(election(leaderElect=False), **told)
        assert finding.severity is Severity.ERROR

    def test_the_clusters_own_scheduler(self) -> None:
        """A configuration for the cluster's own kube-scheduler holds the cluster's own Lease."""
        found = find(
            lambda document: document.update(leaderElection={}, profiles=[{"schedulerName": "default-scheduler"}]),
            scheduler_names=("default-scheduler",),
        )
        assert brief(found) == [("warning", "profiles[0].schedulerName")]


class TestWhichExtender:
    """Muster is found among several extenders."""

    @staticmethod
    def _add_first(*prefixes: str) -> Change:
        others = [{"urlPrefix": prefix, "filterVerb": "filter"} for prefix in prefixes]
        return lambda document: document.update(extenders=[*others, *document["extenders"]])

    def test_by_its_port(self) -> None:
        """Others on other ports are not taken for it."""
        found = find(self._add_first("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"))
        assert found == []

    def test_by_its_path_on_loopback(self) -> None:
        """With a wrong port, the one that looks like it is."""
        found = find(self._add_first("http://10.0.0.1:1/gpu"), port=9999)
        assert brief(found) == [("error", "extenders[1].urlPrefix")]

    def test_none_of_several(self) -> None:
        """Where none looks like it, that is what is said."""
        found = find(top(extenders=[{"urlPrefix": "http://a:1/x"}, {"urlPrefix": "http://b:1/y"}]))
        assert brief(found) == [("error", "extenders")]
        assert "none of them is Muster (port 10261, /v1)" in found[0].problem


class TestDocuments:
    """Where a configuration may stand."""

    def test_in_a_config_map(self) -> None:
        """As the manifests wrap it; the key is named."""
        wrapped = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {
                "other.txt": "no configuration",
                "number": 5,
                "muster.yaml": changed(extender(ignorable=True)),
            },
        }
        (checked,) = check_text(yaml.safe_dump(wrapped), expectations())
        assert checked.where == "document 1, data[muster.yaml]"
        assert brief(list(checked.findings)) == [("error", "extenders[0].ignorable")]
        assert checked.errors == 1

    def test_among_other_documents(self) -> None:
        """Rendered manifests may be piped in as they are; empty documents do not count."""
        text = "\n---\n".join(["", yaml.safe_dump({"kind": "Service"}), yaml.safe_dump(SHIPPED)])
        (checked,) = check_text(text, expectations())
        assert checked.where == "document 2"
        assert brief(list(checked.findings)) == [("warning", "")]

    def test_several(self) -> None:
        """Each is checked; kube-scheduler itself reads only the first of a file."""
        first, second = check_text("\n---\n".join([changed(lambda _: None)] * 2), expectations())
        assert (first.where, second.where) == ("document 1", "document 2")
        assert (first.findings, brief(list(second.findings))) == ((), [("warning", "")])

    def test_without_a_kind(self) -> None:
        """What looks like one is taken for one, and its kind is missing."""
        assert ("error", "kind") in brief(find(top(kind=None)))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "found: nothing"),
            ("kind: Pod", "found: Pod"),
            ("- 1", "found: no mapping"),
            ("a: 1", "found: a mapping without kind"),
            ("a: [", "line 1"),
            ("a: 1\na: 2", "line 2, column 1: key 'a' is given twice"),
            ("a: 2026-13-45", "not YAML"),
            ("a: &a [*a]\n'b': \x00", "not YAML"),
            ("kind: ConfigMap\ndata: {a: 'kind: KubeSchedulerConfiguration: x'}", "document 1, data[a]: line 1"),
            ("kind: ConfigMap\ndata: []", "found: ConfigMap"),
        ],
    )
    def test_text_that_holds_none(self, text: str, message: str) -> None:
        """The error says what was found instead, or where the text is no YAML."""
        with pytest.raises(NoConfigurationError) as refused:
            check_text(text, expectations())
        assert message in str(refused.value)

    def test_errors_go_before_warnings(self) -> None:
        """What breaks gangs is read first."""
        found = find(lambda document: (extender(weight=20)(document), top(parallelism=0)(document)))
        assert brief(found) == [("error", "parallelism"), ("warning", "extenders[0].weight")]

    def test_every_mistake_of_a_field_is_told(self) -> None:
        """Reading goes on after a mistake: a list of two bad extenders has two findings."""
        found = find(top(extenders=[{"urlPrefix": 5}, "x", {"urlPrefix": "http://127.0.0.1:10261/v1"}]))
        paths = [finding.path for finding in found]
        assert {"extenders[0].urlPrefix", "extenders[1]"} <= set(paths)
