"""`muster status`, `gangs`, `queues`, `nodes`, `top` and `capacity`: how the cluster is, asked of a running Muster."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.clock import SystemClock
from extender.objects.meta import time_text
from tests.cli.answers import answer, gang, node, queue, status, use, waiting
from tests.cli.conftest import Script

PATHS = {
    "status": "/api/v1/status",
    "gangs": "/api/v1/gangs",
    "queues": "/api/v1/queues",
    "nodes": "/api/v1/nodes",
    "top": "/api/v1/gangs",
    "capacity": "/api/v1/capacity",
}
LEVEL = {
    "level": "node",
    "product": "NVIDIA-H100-80GB-HBM3",
    "domains": 16,
    "islands": [{"freeGpus": 8, "domains": 12}, {"freeGpus": 3, "domains": 1}, {"freeGpus": 0, "domains": 3}],
    "largest": {"domain": "gpu-3", "freeGpus": 8},
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "status": status(),
    "gangs": {"gangs": [waiting(), gang()]},
    "queues": {"queues": [queue("team")]},
    "nodes": {"levels": [], "nodes": [node("n1", ["team/train", ""])]},
    "top": {"gangs": [waiting(), gang()]},
    "capacity": {"levels": [LEVEL], "gangs": [{"gpusPerPod": 8, "pods": 12}]},
}


@pytest.fixture
def asked(server: Script) -> Script:
    """Return a Muster that answers everything."""
    for command, document in DOCUMENTS.items():
        answer(server, PATHS[command], document)
    return server


def ask(server: Script, command: str, *arguments: str) -> Result:
    """Run a command against a Muster."""
    return CliRunner().invoke(app, [command, "--server", server.url, *arguments])


def table(result: Result) -> list[list[str]]:
    """Return the words of each line."""
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("command", PATHS)
def test_programs_get_the_document_unchanged(asked: Script, command: str) -> None:
    """As JSON and as YAML."""
    assert json.loads(ask(asked, command, "-o", "json").stdout) == DOCUMENTS[command]
    assert yaml.safe_load(ask(asked, command, "-o", "yaml").stdout) == DOCUMENTS[command]


@pytest.mark.parametrize("command", PATHS)
def test_what_is_no_terminal_gets_no_colours(asked: Script, command: str) -> None:
    """Plain lines that fit a screen of 100 columns."""
    result = ask(asked, command)
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_colours_are_for_terminals_unless_nobody_wants_them(asked: Script) -> None:
    """NO_COLOR wins over whatever else says that there is a terminal."""
    arguments = ["gangs", "--server", asked.url]
    assert "\x1b[33mPending" in CliRunner().invoke(app, arguments, env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout
    plain = CliRunner().invoke(app, arguments, env={"FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1"}).stdout
    assert "\x1b[33m" not in plain
    assert "Pending" in plain


@pytest.mark.parametrize("command", PATHS)
def test_help_has_examples_and_exit_codes(command: str) -> None:
    """And the options by which Muster is found."""
    text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout
    assert "Example" in text
    assert "Exit codes: 0" in text
    for option in ("--server", "--kubeconfig", "--context", "--via", "--muster-namespace", "MUSTER_SERVER"):
        assert option in text


@pytest.mark.parametrize("command", PATHS)
def test_an_older_muster_is_told_apart(server: Script, command: str) -> None:
    """By what its answer lacks, and by questions that it does not know."""
    result = ask(server, command)
    assert result.exit_code == 1
    assert "answered 404 Not Found" in result.stderr
    answer(server, PATHS[command], {})
    result = ask(server, command)
    assert result.exit_code == 1
    assert "is it as new as this command?" in result.stderr


def test_status_says_how_things_are(asked: Script) -> None:
    """Muster, nodes, GPUs, gangs, who waits for what and since when, what it takes."""
    result = ask(asked, "status")
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines == [
        "Muster 0.1.0: ready, leading",
        "  nodes    4, 3 take pods, 4 have GPUs",
        "  GPUs     32: 16 used, 8 reserved, 8 free  " + "\u2588" * 12 + "\u2592" * 6 + "\u00b7" * 6,
        "  gangs    2 Pending, 1 Running",
        "  waiting  1 InsufficientCapacity, 1 BehindHead",
        "  longest  team/next waits for 3m12s",
        "  queues   2",
        "  pass     7 in the last minute, p50 2 ms, p99 9 ms",
        "  filter   120 in the last minute, p50 0.312 ms, p99 1.5 ms",
        "  recorded 1204 inputs, 1.2MiB of the last 60m",
    ]
    assert "preempt  3 in the last minute, p50 0.2 ms, p99 -" in ask(asked, "status", "-o", "wide").stdout


def test_what_a_caller_may_not_list_is_counted(server: Script) -> None:
    """So that nobody takes a part for the whole; also where names are asked for, which are not counted."""
    answer(server, PATHS["status"], status(hidden=["namespaces", "nodes"], hiddenGangs=3))
    lines = [line.strip() for line in ask(server, "status").stdout.splitlines()]
    assert "nodes    not shown: you may not list nodes" in lines
    assert "3 gangs of other namespaces are not shown: you may not list podgroups there" in lines
    answer(server, PATHS["gangs"], {"gangs": [gang()], "hidden": 1})
    assert ask(server, "gangs").stderr.startswith("1 gang of other namespaces is not shown: ")
    assert "not shown" not in ask(server, "gangs", "team/train").stderr


def test_a_standby_is_ready(server: Script) -> None:
    """It says that it stands by; what there is none of is not listed."""
    off = {"on": False, "inputs": 0, "bytes": 0, "since": None, "ended": None}
    nothing: dict[str, Any] = {"waiting": {}, "oldestWait": None, "queues": 0, "recording": off, "verbs": []}
    answer(server, PATHS["status"], status(leading=False, **nothing))
    result = ask(server, "status")
    assert result.exit_code == 0
    assert "Muster 0.1.0: ready, standing by" in result.stdout
    assert "  waiting  none" in result.stdout
    assert "queues" not in result.stdout
    assert "recording is off" in result.stdout


def test_a_muster_that_is_not_ready_has_an_exit_code_of_its_own(server: Script) -> None:
    """With what it waits for."""
    answer(server, PATHS["status"], status(ready=False, leading=False, unready=["pods not synced"]))
    result = ask(server, "status")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[:2] == ["Muster 0.1.0: not ready", "  pods not synced"]
    assert ask(server, "status", "-o", "json").exit_code == 3


def test_gangs_are_listed_as_muster_orders_them(asked: Script) -> None:
    """Members that have a node, the place in the queue, the reason."""
    first, second, third = table(ask(asked, "gangs"))
    assert first == ["GANG", "PHASE", "MEMBERS", "GPUS", "QUEUE", "POS", "AGE", "STARTS", "REASON"]
    assert second[:6] == ["team/next", "Pending", "0/4", "32", "-", "1"]
    assert second[-1] == "InsufficientCapacity"
    assert third[:6] == ["team/train", "Running", "4/4", "32", "-", "-"]


def test_gangs_that_wait_say_when_they_start(server: Script) -> None:
    """In how long, as ages are written, or later than that; nothing where that is not known."""
    at = time_text(SystemClock().now().timestamp() + 725)
    rows = [
        waiting("team/soon", expectedStart={"at": at, "waitsFor": "a", "overdue": False}),
        waiting("team/unknown", startUnknown="no end of another makes room"),
        gang("team/runs"),
        waiting("team/later", startUnknown="later than that", startsAfter=at),
    ]
    answer(server, PATHS["gangs"], {"gangs": rows})
    _, soon, unknown, runs, later = ask(server, "gangs").stdout.splitlines()
    assert soon.split()[7] in {"12m", "12m4s", "12m5s"}
    assert (unknown.split()[7], runs.split()[7]) == ("-", "-")
    assert later.split()[7].startswith(">12m")


def test_wide_gangs_have_all_that_is_known(server: Script) -> None:
    """Where, how fast, when the others start, and the whole message."""
    late = waiting("team/late", expectedStart={"at": "2026-03-01T12:00:00Z", "waitsFor": "a", "overdue": True})
    parts = {"bound": 2, "minimum": 2, "total": 3}
    gone = gang("team/gone", evicted="preempted by team/urgent", queue="research", parts=parts)
    answer(server, PATHS["gangs"], {"gangs": [late, gone]})
    headings, first, second = ask(server, "gangs", "-o", "wide").stdout.splitlines()
    assert headings.split()[2:5] == ["MEMBERS", "PARTS", "GPUS"]
    assert (first.split()[2:5], second.split()[2:5]) == (["0/4", "-", "32"], ["4/4", "2/2", "32"])
    assert headings.split()[6:] == ["PRIORITY", "POS", "AGE", "NODES", "GB/S", "WITHIN", "STARTS", "REASON", "MESSAGE"]
    assert "overdue" in first
    assert first.endswith("InsufficientCapacity      1 of 4 members fit now")
    assert "329  rack r1" in second
    assert "research" in second


def test_gangs_can_be_named_for_other_commands(asked: Script) -> None:
    """One per line, as `muster explain` takes them; headings can be left out of the table."""
    assert ask(asked, "gangs", "-o", "name").stdout == "team/next\nteam/train\n"
    assert len(table(ask(asked, "gangs", "--no-headers"))) == 2


def test_gangs_are_chosen_by_muster(server: Script) -> None:
    """Every choice is a parameter of the question."""
    path = "/api/v1/gangs?namespace=team&phase=Pending&reason=BehindHead&queue=a%2Fb&labelSelector=team%3Da%2C%21old"
    answer(server, path, {"gangs": []})
    choices = ["-n", "team", "--phase", "pending", "--reason", "BehindHead", "--queue", "a/b", "-l", "team=a,!old"]
    answer(server, PATHS["queues"], {"queues": [queue("a/b")]})
    result = ask(server, "gangs", *choices)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        result.stderr == "no gangs, namespace team, phase Pending, reason BehindHead, queue a/b, labels team=a,!old\n"
    )


def test_a_queue_that_is_not_there_is_told(server: Script) -> None:
    """With the one that was probably meant."""
    answer(server, "/api/v1/gangs?queue=researhc", {"gangs": []})
    answer(server, PATHS["queues"], {"queues": [queue("research"), queue("serving")]})
    result = ask(server, "gangs", "--queue", "researhc")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("muster gangs: there is no Queue researhc; did you mean research?\n")


def test_choices_that_make_no_sense_are_refused(server: Script) -> None:
    """By Muster where it knows the values, else by the command; exit code 2."""
    answer(server, "/api/v1/gangs?phase=Sleeping", {"detail": "phase cannot be 'Sleeping'"}, 400)
    result = ask(server, "gangs", "--phase", "sleeping")
    assert (result.exit_code, result.stderr) == (2, "muster gangs: phase cannot be 'Sleeping'\n")
    assert ask(server, "gangs", "-n", "team", "-A").exit_code == 2


def test_messages_cannot_steer_the_terminal(server: Script) -> None:
    """A reason may quote what somebody wrote into an annotation."""
    steering = waiting(reason="InvalidGang")
    steering["reason"]["message"] = "bad value \x1b[2J"
    answer(server, PATHS["gangs"], {"gangs": [steering]})
    assert "bad value \ufffd[2J" in ask(server, "gangs", "-o", "wide").stdout


def test_queues_are_a_tree(server: Script) -> None:
    """Parents before children, by name; what is borrowed and lent is drawn beside what is used of the own."""
    found = [
        queue("vision", "org", [use(8, 12, borrowed=4)], pendingGangs=2, admittedGangs=3),
        queue("org", "", [use(16, 12)]),
        queue("team-10", "vision"),
        queue("team-9", "vision"),
        queue("speech", "org", [use(8, 0, lent=4)], active=False, reason="InvalidParent"),
    ]
    answer(server, PATHS["queues"], {"queues": found})
    lines = ask(server, "queues").stdout.splitlines()
    assert [line[:12].rstrip() for line in lines] == [
        "QUEUE",
        "org",
        "\u251c speech",
        "\u2514 vision",
        "  \u251c team-9",
        "  \u2514 team-10",
    ]
    assert lines[2].split()[-7:] == ["0", "8", "0", "4", "0", "0", "InvalidParent"]
    assert lines[3].split()[-6:] == ["12", "8", "4", "0", "2", "3"]
    assert "\u2588" * 8 + "\u2593" * 4 in lines[3]
    assert "\u2591" * 6 + "\u00b7" * 6 in lines[2]


def test_queues_list_devices_first(server: Script) -> None:
    """CPU and memory are for wide tables, and for queues that have nothing else."""
    uses = [use(8, 4), use(96_000, 1500, resource="cpu"), use(2**40, 2**39, resource="memory")]
    answer(server, PATHS["queues"], {"queues": [queue("a", "", uses), queue("b", "", uses[1:], message="said")]})
    lines = table(ask(server, "queues"))[1:]
    assert [line[:2] for line in lines[:2]] == [["a", "nvidia.com/gpu"], ["b", "cpu"]]
    assert [line[0] for line in lines[2:]] == ["memory"]
    wide = ask(server, "queues", "-o", "wide").stdout
    assert len(wide.splitlines()) == 6
    assert "1.5       96" in wide
    assert "RESERVED" in wide
    assert "512Gi" in wide
    assert "said" in wide


def test_queues_tell_what_users_run_where_that_is_limited(server: Script) -> None:
    """With a name, or in a wide table: a line each of GPUs and of gangs, with the limit where there is one."""
    running = [
        {"kind": "user", "name": "jane", "gpus": 16, "gangs": 2, "mostGpus": 32, "mostGangs": None},
        {"kind": "group", "name": "", "gpus": 0, "gangs": 1, "mostGpus": None, "mostGangs": 4},
    ]
    answer(server, PATHS["queues"], {"queues": [queue("team", running=running)]})
    assert "jane" not in ask(server, "queues").stdout
    for words in (["team"], ["-o", "wide"]):
        lines = [" ".join(line.split()) for line in ask(server, "queues", *words).stdout.splitlines()]
        assert any(line.startswith("user jane: GPUs \u2588\u2588\u2588\u2588\u2588\u2588") for line in lines), lines
        assert any(line.startswith("user jane: gangs 2 - - -") for line in lines), lines
        assert any(line.startswith("group (no label): gangs \u2588\u2588\u2588") for line in lines), lines


def test_queues_without_a_root_are_shown_too(server: Script) -> None:
    """Whoever is his own ancestor, and whoever's parent is not there."""
    answer(server, PATHS["queues"], {"queues": [queue("a", "b"), queue("b", "a"), queue("c", "gone")]})
    assert [line[0] for line in table(ask(server, "queues", "--no-headers"))] == ["c", "a", "\u2514"]
    assert ask(server, "queues", "-o", "name").stdout.split() == ["a", "b", "c"]


def test_no_queues_are_told(server: Script) -> None:
    """With what holds then."""
    answer(server, PATHS["queues"], {"queues": []})
    result = ask(server, "queues")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no Queues: gangs are ordered by priority and age alone" in result.stderr


def test_nodes_are_drawn_by_domain(server: Script) -> None:
    """A letter for each GPU that somebody has, small where it is reserved; the legend says who."""
    found = [
        node("n10", ["team/b", "", "", ""], domains=["b0", "b0/r1"]),
        node("n9", ["team/a", "team/a", "~team/a", ""], domains=["b0", "b0/r1"]),
        node("n1", ["", ""], domains=["b0", "b0/r0"], schedulable=False, product=None),
        node("cpu", []),
    ]
    answer(server, PATHS["nodes"], {"levels": ["block", "rack"], "nodes": found})
    lines = ask(server, "nodes").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "NODE",
        "cpu",
        "block b0, rack r0",
        "n1",
        "block b0, rack r1",
        "n9",
        "n10",
        "",
        "A team/a: 3 GPUs",
        "B team/b: 1 GPU",
    ]
    assert lines[3].split() == ["n1", "--", "2/2", "-"]
    assert lines[5].split() == ["n9", "AAa\u00b7", "1/4", "NVIDIA-H100-80GB-HBM3"]


def test_wide_nodes_have_other_resources(asked: Script) -> None:
    """What is free of them, and whether the node takes pods."""
    line = table(ask(asked, "nodes", "-o", "wide"))[1]
    assert line == ["n1", "A\u00b7", "1/2", "0", "32.5", "512Gi", "NVIDIA-H100-80GB-HBM3", "yes"]


def test_only_nodes_with_room_can_be_asked_for(server: Script) -> None:
    """Those that take pods and have a free GPU."""
    found = [node("full", ["team/a"]), node("closed", [""], schedulable=False), node("open", [""])]
    answer(server, PATHS["nodes"], {"levels": [], "nodes": found})
    assert ask(server, "nodes", "--free", "-o", "name").stdout == "open\n"
    answer(server, PATHS["nodes"], {"levels": [], "nodes": found[:2]})
    result = ask(server, "nodes", "--free")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no nodes with free GPUs\n")
    answer(server, PATHS["nodes"], {"levels": [], "nodes": []})
    assert ask(server, "nodes").stderr == "no nodes\n"


def test_more_holders_than_letters_are_summed_up(server: Script) -> None:
    """The largest have letters."""
    holders = [f"team/g{number}" for number in range(30) for _ in range(2 if number < 3 else 1)]
    answer(server, PATHS["nodes"], {"levels": [], "nodes": [node("n", holders)]})
    lines = ask(server, "nodes").stdout.splitlines()
    assert "A team/g0: 2 GPUs" in lines
    assert lines[-1] == "# 4 others: 4 GPUs"
    assert "####" in lines[1]


def test_top_ranks_gangs_by_what_they_hold(server: Script) -> None:
    """Reserved GPUs count, those of members without a node do not; a share is one of all GPUs of the cluster."""
    half = waiting("team/half", gpus=32, gpusHeld=16)
    small = gang("team/small", gpus=8, gpusHeld=8, queue="research", nodes=1)
    answer(server, PATHS["top"], {"gangs": [waiting(), small, half]})
    answer(server, PATHS["status"], status())
    _, first, second = table(ask(server, "top"))
    assert (first[0], first[1], first[3]) == ("team/half", "16", "50%")
    assert (second[0], second[1], second[3], second[-2]) == ("team/small", "8", "25%", "research")
    assert first[2] == "\u2588" * 8 + "\u00b7" * 8
    assert len(table(ask(server, "top", "--limit", "1", "--no-headers"))) == 1


def test_top_ranks_queues(server: Script) -> None:
    """With how many of their gangs hold something, and how many wait."""
    answer(server, PATHS["top"], {"gangs": [waiting(queue="research"), gang(queue="research"), gang("team/other")]})
    answer(server, PATHS["status"], status(gpus={"allocatable": 0, "used": 0, "reserved": 0, "free": 0}))
    lines = [[word for word in line if "\u00b7" not in word] for line in table(ask(server, "top", "--by", "queue"))]
    assert lines[1:] == [["-", "32", "-", "1", "0"], ["research", "32", "-", "1", "1"]]


def test_top_of_an_idle_cluster_is_empty(server: Script) -> None:
    """That is no failure."""
    answer(server, PATHS["top"], {"gangs": [gang(gpusHeld=0)]})
    answer(server, PATHS["status"], status())
    result = ask(server, "top")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no gang holds GPUs\n")


def test_capacity_says_in_what_pieces_room_is(server: Script) -> None:
    """Islands by size, the largest first, and how many pods of each size fit."""
    many = {**LEVEL, "islands": [{"freeGpus": size, "domains": 2} for size in range(8, 0, -1)]}
    empty = {
        **LEVEL,
        "level": "cluster",
        "product": None,
        "islands": [{"freeGpus": 0, "domains": 1}],
        "domains": 1,
        "largest": {"domain": "", "freeGpus": 0},
    }
    sizes = [{"gpusPerPod": 1, "pods": 99}, {"gpusPerPod": 8, "pods": 12}]
    answer(server, PATHS["capacity"], {"levels": [LEVEL, many, empty], "gangs": sizes})
    lines = ask(server, "capacity").stdout.splitlines()
    assert " ".join(lines[1].split()) == "node NVIDIA-H100-80GB-HBM3 16 99 gpu-3: 8 12 x 8, 1 x 3"
    assert lines[2].endswith("2 x 8, 2 x 7, 2 x 6, 2 x 5, 2 x 4, 6 smaller")
    assert lines[3].split() == ["cluster", "-", "1", "0", "-", "none"]
    assert lines[5] == "pods that fit now, by GPUs alone: 99 with 1 GPU, 12 with 8 GPUs"
    assert ask(server, "capacity", "-o", "wide").stdout.splitlines()[2].endswith("2 x 2, 2 x 1")
    assert len(ask(server, "capacity", "--no-headers").stdout.splitlines()) == 3


def test_capacity_of_a_cluster_without_gpus_is_told(server: Script) -> None:
    """That is no failure."""
    answer(server, PATHS["capacity"], {"levels": [], "gangs": []})
    result = ask(server, "capacity")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no nodes with GPUs\n")
