"""Random gangs under every fault at once on the real control plane, judged by the API server's history.

`--storm-gangs N` and `--storm-seeds N` (or `--storm-seed SEED`) make larger and other storms. `--storm-flavours` are
those to play: `alone`, where Muster, kube-scheduler and kube-controller-manager are killed and stopped, `outages`,
where the API server and etcd are too, and `replicas`, where two replicas follow one Lease, and are killed, stopped for
longer than that, and cut off from the API server one by one. `--storm-record FILE` keeps a line of JSON of each storm,
and plays those of seeds that it does not have yet: a night that was cut short goes on with the next run.
`python -m tests.controlplane.storms FILE` adds up what it has.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import pytest

from localcluster.client import NODES, POD_GROUPS, PODS
from localcluster.cluster import LocalCluster
from localcluster.faults.request import Exchange
from localcluster.history import Recorder
from localcluster.sandbox import Sandbox
from localcluster.workloads import POD_GROUP_LABEL
from tests.controlplane.judging import history_of
from tests.controlplane.stage import ALONE, Stage, staged
from tests.controlplane.storm import NEWS_SECONDS, OUTAGE_SECONDS, WRITE_SECONDS, Storm
from tests.controlplane.storm_script import FLAVOURS, Script, write_script
from tests.controlplane.storms import recorded, summary
from tests.judge import History, Tolerance, Violation, judge, report

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

#: How long it may take in quiet until the next pod succeeds, and until a gang comes right (seconds): a fraction of that
#: on a machine with nothing else to do.
_PATIENCE, _SETTLE = 90.0, 90.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one storm of each flavour and seed."""
    if "seed" in metafunc.fixturenames:
        option = metafunc.config.getoption
        known = {(each["flavour"], each["seed"]) for each in recorded(option("--storm-record"))}
        storms = [
            pytest.param(flavour, seed, id=f"{flavour}-{seed}")
            for flavour in option("--storm-flavours").split(",")
            for seed in islice(
                (seed for seed in count(option("--storm-seed")) if (flavour, seed) not in known),
                option("--storm-seeds"),
            )
        ]
        metafunc.parametrize(("flavour", "seed"), storms)


@pytest.fixture
def stage(device_local_cluster: LocalCluster, device_cluster: Sandbox, flavour: str) -> Iterator[Stage]:
    """Set the stage; the recorders are started with each storm."""
    with staged(device_local_cluster, device_cluster, FLAVOURS[flavour]) as stage:
        yield stage


@dataclass(frozen=True, slots=True)
class Played:
    """A storm that is over, what the judge says of it, and the gangs that did not finish."""

    storm: Storm
    history: History
    violations: list[Violation]
    unfinished: list[str]

    @property
    def wrong(self) -> bool:
        """Tell whether a promise was broken."""
        return bool(self.violations or self.unfinished)

    def concerned(self) -> set[str]:
        """Return the names of the gangs that violations show, and of those that did not finish."""
        names = set(self.unfinished)
        for change in (change for violation in self.violations for change in violation.evidence):
            metadata = change.object["metadata"]
            names.add((metadata.get("labels") or {}).get(POD_GROUP_LABEL, metadata["name"]))
        return names & set(self.storm.script.gangs)


def play(stage: Stage, script: Script) -> Played:
    """Play a storm and the quiet after it, and judge both."""
    storm = Storm(stage, script)
    with stage.recording():
        storm.rage()
        storm.calm()
        quiet = time.monotonic()
        unfinished = storm.finish(_PATIENCE)
        stage.recorder.catch_up()
        end = time.monotonic()
        deaths = storm.havoc.deaths
        # With two replicas the death of one ends the calls that were made of it, and of no other.
        restarts = deaths[ALONE] if stage.replicas is None else []
        history = history_of(stage.recorder, stage.bind_calls(deaths), end=end, restarts=restarts, quiet=quiet)
    flavour = script.flavour
    away = OUTAGE_SECONDS if flavour.outages else flavour.longest if flavour.replicas else 0.0
    tolerance = Tolerance(news=NEWS_SECONDS + away, write=WRITE_SECONDS + away, settle=_SETTLE)
    return Played(storm, history, judge(history, tolerance), unfinished)


def explain(stage: Stage, played: Played) -> str:
    """Return what is wrong with a storm, with the story of the gangs concerned; if it can be had, of them alone."""
    script, names = played.storm.script, played.concerned()
    text = f"seed {script.seed}: unfinished {played.unfinished}\n{report(played.violations)}\n\n"
    text += story_of(stage, played.history, names, played.storm)
    if not names or len(names) > len(script.gangs) // 4:
        return text
    stage.begin_anew()
    alone = play(stage, script.only(names))
    if not alone.wrong:
        return f"{text}\n\nNothing is wrong when {', '.join(sorted(names))} are alone."
    story = story_of(stage, alone.history, names, alone.storm)
    return f"seed {script.seed}, {', '.join(sorted(names))} alone: {report(alone.violations)}\n\n{story}"


def story_of(stage: Stage, history: History, names: set[str], storm: Storm) -> str:
    """Write down what happened to some gangs in order of time, what was asked about them, and what else was done."""
    lines = [(storm.begun + act.at, str(act)) for act in storm.script.acts if act.at <= storm.lasted]
    lines += [(at, f"{at:10.3f} {text}") for at, text in storm.havoc.log]
    pods = set()
    for change in history.changes:
        metadata = change.object["metadata"]
        if {metadata["name"], (metadata.get("labels") or {}).get(POD_GROUP_LABEL)} & names:
            lines.append((change.at, str(change)))
            pods.add(metadata["name"])
    lines += [
        (exchange.at, f"{site.name} {_line(exchange)}")
        for site in stage.sites
        for exchange in (*site.verb_proxy.requests, *site.api_proxy.requests)
        if exchange.request.name in pods
    ]
    lines += [(at, f"{at:10.3f} {name}: Muster is killed") for name, ats in storm.havoc.deaths.items() for at in ats]
    lines += [(at, f"{at:10.3f} {name or 'no replica'} leads") for at, name in stage.terms()]
    lines += [(at, f"{at:10.3f} quiet begins") for at in [history.quiet] if at is not None]
    return "\n".join(text for _, text in sorted(lines))


def _line(exchange: Exchange) -> str:
    """Write a request as one line, with the pod that a verb is about and how long the answer took."""
    request = exchange.request
    took = "" if exchange.ended is None else f" after {exchange.ended - exchange.at:.3f} s"
    return f"{exchange} {request.subresource} {request.name}{took}"


def test_storm_breaks_no_promise(
    stage: Stage,
    flavour: str,
    seed: int,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever happens to gangs, nodes, processes and requests: every promise is kept, and in the end all have run."""
    option = request.config.getoption
    script = write_script(seed, option("--storm-gangs"), FLAVOURS[flavour])
    began = time.monotonic()
    played = play(stage, script)
    storm, history, havoc = played.storm, played.history, played.storm.havoc
    injected = Counter(
        fault.partition("(")[0] for proxy in stage.proxies for exchange in proxy.requests for fault in exchange.faults
    )
    figures = {
        "flavour": flavour,
        "seed": seed,
        "gangs": len(script.gangs),
        "seconds": {"storm": round(storm.lasted, 1), "all": round(time.monotonic() - began, 1)},
        "kills": dict(havoc.kills),
        "pauses": dict(havoc.pauses),
        "cuts": dict(havoc.cuts),
        "ended": dict(havoc.ended),
        "terms": sum(bool(name) for _, name in stage.terms()),
        "deposed": havoc.deposed,
        "acts": dict(storm.done),
        "faults": dict(injected),
        "requests": sum(len(proxy.requests) for proxy in stage.proxies),
        "changes": len(history.changes),
        "bindings": bindings(history),
        "wrong": [*map(str, played.violations), *played.unfinished],
    }
    record_property("storm", figures)
    if (path := option("--storm-record")) is not None:
        with path.open("a", encoding="utf-8") as record:
            record.write(json.dumps(figures) + "\n")
    sys.stdout.write(f"STORM {figures}\n{summary([figures] if path is None else recorded(path))}\n")
    if played.wrong:
        pytest.fail(explain(stage, played), pytrace=False)
    kinds = {change.object["kind"] for change in history.changes}
    assert kinds >= {PODS.kind, POD_GROUPS.kind, NODES.kind}
    assert history.arrivals


def bindings(history: History) -> int:
    """Count the pods that were bound."""
    return len(
        {
            change.object["metadata"]["uid"]
            for change in history.changes
            if change.object["kind"] == PODS.kind and change.type != "ADDED" and change.object["spec"].get("nodeName")
        }
    )


def test_equal_seeds_make_equal_storms() -> None:
    """A storm is made up from its seed alone; another seed makes another, and a part of it leaves the rest as it is."""
    script = write_script(7, 40)
    assert script == write_script(7, 40)
    assert script.acts != write_script(8, 40).acts
    part = script.only({"gang-3", "gang-5"})
    assert set(part.gangs) == {act.gang for act in part.arrivals} == {"gang-3", "gang-5"}
    assert part.acts == script.acts
    assert part.gusts == script.gusts != write_script(8, 40).gusts


def test_records_add_up(tmp_path: Path) -> None:
    """Recorded storms are read again, and what was done in them is added up by flavour and in all."""
    storm = {
        "flavour": "alone",
        "seed": 1,
        "gangs": 40,
        "seconds": {"storm": 60.0, "all": 90.0},
        "kills": {"muster": 20, "etcd": 10},
        **{key: {} for key in ("pauses", "cuts", "ended", "faults")},
        **dict.fromkeys(("terms", "deposed", "changes", "bindings"), 7),
        "wrong": [],
    }
    path = tmp_path / "storms.jsonl"
    assert recorded(path) == []
    path.write_text(f"{json.dumps(storm)}\n{json.dumps({**storm, 'flavour': 'outages', 'seed': 2, 'wrong': ['P1']})}\n")
    text = summary(recorded(path))
    alone, outages, both = (text[text.index(start) :] for start in ("alone:", "outages:", "all:"))
    assert alone.startswith("alone: 1 storms of 40 gangs in 1.5 min, 1.0 of storm\n  kills: 30 ")
    assert "kills a minute: 20.0, of storm 30.0" in both
    assert "with violations: 1 2" in outages
    assert both.startswith("all: 2 storms of 80 gangs in 3.0 min, 2.0 of storm\n  kills: 60 {'muster': 40, 'etcd': 20}")


def test_judge_finds_a_gang_bound_in_part(local_cluster: LocalCluster, cluster: Sandbox) -> None:
    """What a faulty Muster would do, done by hand: one of three members bound, and then nothing more."""
    cluster.nodes(3, gpus=8)
    with Recorder(local_cluster.admin) as recorder:
        gang = cluster.gang("gang", members=3, gpus=8, scheduler="muster")
        member, other, _ = gang.members
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": member.name, "uid": member.uid}}
        path = PODS.path(member.namespace, member.name, "binding")
        local_cluster.admin.request("POST", path, body={**binding, "target": {"kind": "Node", "name": "node-0"}})
        quiet = time.monotonic()
        other.recreate()
        recorder.catch_up()
        changes = [change for change in recorder.changes() if change.object["metadata"]["name"] == other.name]
        history = history_of(recorder, [], end=time.monotonic() + 10.0, quiet=quiet)
    assert [change.type for change in changes if change.type != "MODIFIED"] == ["ADDED", "DELETED", "ADDED"]
    found = judge(history, Tolerance(news=1.0, write=1.0, settle=5.0))
    assert [violation.promise for violation in found] == ["P1", "P5", "P3"]
    assert "no bind call" in report(found)
