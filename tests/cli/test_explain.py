"""`muster explain`: how a gang stands, asked of a running Muster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.cli.printing import local_time
from extender.cluster.membership import Census
from extender.cluster.occupancy import Held
from extender.explain.account import WaitAccount
from extender.explain.documents import GangPhase, PartRow, PartState, QueuePosition
from extender.explain.explanation import GangFacts
from extender.explain.explanation import explanation as written
from extender.explain.views import GangView
from extender.objects.levels import Level, Levels
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.placement import Placement
from tests.cli.answers import answer, gang
from tests.cli.conftest import Script, free_port

PLACED = Placement(329.4, "rack", "r1", 12.5, {"n0": 8, "n1": 8})


def explanation(members: int = 2, wait: Wait | None = None) -> bytes:
    """Return what a Muster says of a gang on two nodes."""
    ref = GroupRef(COSCHEDULING, "team", "train")
    pods = tuple(Pod(f"{i}", "team", f"train-{i}", Shape(()), node_name=f"n{i}", role="worker") for i in range(members))
    explained = GangFacts(
        GangView(ref, "uid", GangPhase.RUNNING, members, Census(), 0, wait, managed=True),
        Levels((Level("rack", "r"),), "settings"),
        pods,
        WaitAccount(QueuePosition(None, None, 0, None, 0, ()), placement=PLACED if wait is None else None),
        held={"0": Held((0, 1), (0,), observed=True), "1": Held((2, 3), (1,), observed=False)},
    )
    return msgspec.json.encode(written(explained))


def explain(*arguments: str, stdin: str = "") -> Result:
    """Run the command, for a wide screen."""
    return CliRunner().invoke(app, ["explain", *arguments], input=stdin, env={"COLUMNS": "160"})


def test_it_says_where_a_gang_is_and_what_is_predicted(server: Script) -> None:
    """The bandwidth, the closest that all members share, each member with its GPUs."""
    server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, explanation())
    result = explain("team/train", "--server", server.url)
    assert result.exit_code == 0
    assert "team/train: Running, 329 GB/s predicted, within rack r1" in result.stdout
    assert "16 GPUs on 2 nodes; future requests lose 12.5 GB/s" in result.stdout
    assert "levels: rack (settings)" in result.stdout
    first, second = (line for line in result.stdout.splitlines() if "train-" in line)
    assert "0,1" in first
    assert "predicted" not in first
    assert "2,3 (predicted)" in second


def test_it_says_why_a_gang_waits(server: Script) -> None:
    """In the words that every other channel has."""
    wait = Wait(Reason.INSUFFICIENT_CAPACITY, {"minMember": 2, "fits": 1})
    server.answers["/api/v1/gangs/default/train/explain?suggestions=true"] = (200, explanation(wait=wait))
    result = explain("train", "--server", server.url)
    assert "waits: InsufficientCapacity: 1 of 2 members fit now" in result.stdout


def part(name: str, state: PartState, bound: int, *parts: PartRow, **fields: Any) -> PartRow:
    """Return a part that needs two of what it consists of, of which all exist."""
    counts = {"minimum": 2, "exist": 2, "placed": bound, "bound": bound, "running": bound, "lacks": 2 - bound}
    places = dict.fromkeys(("required", "preferred", "level", "domain", "reason"))
    return PartRow(**{"name": name, "state": state, "needed": True, "parts": parts, **counts, **places, **fields})


def test_the_parts_of_a_gang_are_a_tree(server: Script) -> None:
    """Each with its state, counts, level and domain; those that the gang does without are extras; forty at most."""
    inner = part("p0", PartState.RUNNING, 2, level="node", domain="n0"), part("d0", PartState.BOUND, 2)
    first = part("", PartState.RUNNING, 2, *inner, required="rack", level="rack", domain="r1")
    last = part("r1", PartState.WAITING, 0, part("p1", PartState.WAITING, 0), needed=False, preferred="block")
    whole = part("", PartState.RESERVED, 1, first, last, reason=Reason.AWAITING_MEMBERS)
    answer = json.loads(explanation()) | {"parts": msgspec.to_builtins(whole)}
    path = "/api/v1/gangs/team/train/explain?suggestions=true"
    server.answers[path] = (200, json.dumps(answer).encode())
    lines = explain("team/train", "--server", server.url).stdout.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("  PART"))
    assert [line.rstrip() for line in lines[start : start + 7]] == [
        "  PART      STATE            BOUND  RUNNING  EXIST  LACKS  LEVEL              WITHIN   REASON",
        "  train     reserved           1/2        1      2      1  -                  -        AwaitingMembers",
        "  ├─ all    running            2/2        2      2      -  rack               rack r1",
        "  │  ├─ p0  running            2/2        2      2      -  -                  node n0",
        "  │  └─ d0  bound              2/2        2      2      -  -                  -",
        "  └─ r1     waiting (extra)    0/2        0      2      2  block (preferred)  -",
        "     └─ p1  waiting            0/2        0      2      2  -                  -",
    ]
    many = part("", PartState.WAITING, 0, *(part(f"p{index}", PartState.WAITING, 0) for index in range(50)))
    server.answers[path] = (200, json.dumps(answer | {"parts": msgspec.to_builtins(many)}).encode())
    assert "and 11 parts more (-o wide has all)" in explain("team/train", "--server", server.url).stdout
    assert "p49" in explain("team/train", "--server", server.url, "-o", "wide").stdout


def test_a_large_gang_is_not_listed_to_its_end(server: Script) -> None:
    """Forty members, and how many more there are."""
    server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, explanation(members=50))
    result = explain("team/train", "--server", server.url)
    assert "train-39" in result.stdout
    assert "train-40" not in result.stdout
    assert "and 10 members more" in result.stdout


def test_programs_get_the_document(server: Script) -> None:
    """As the service sent it."""
    server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, explanation())
    result = explain("team/train", "--server", server.url, "-o", "json")
    assert json.loads(result.stdout) == json.loads(explanation())


def test_the_picture_is_written_where_it_is_asked_for(server: Script, tmp_path: Path) -> None:
    """A file; one that cannot be written is named."""
    server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, explanation())
    server.answers["/api/v1/gangs/team/train/picture.svg"] = (200, b"<svg/>")
    file = tmp_path / "train.svg"
    assert explain("team/train", "--server", server.url, "--picture", str(file)).exit_code == 0
    assert file.read_bytes() == b"<svg/>"
    result = explain("team/train", "--server", server.url, "--picture", str(tmp_path / "no" / "where.svg"))
    assert result.exit_code == 2
    assert "where.svg: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (
            404,
            b'{"detail":"no gang team/train: nothing there"}',
            3,
            "muster explain: no gang team/train: nothing there",
        ),
        (404, b'{"detail":"Not Found"}', 1, "answered 404 Not Found; is that where the verbs are,"),
        (404, b"[]", 1, "answered 404 Not Found"),
        (503, b'{"detail":"not ready: pods not synced"}', 1, "not ready: pods not synced"),
        (500, b"oops", 1, "answered 500 Internal Server Error"),
        (200, b"hello", 1, "does not answer as Muster does"),
    ],
)
def test_a_refusal_is_told_in_one_line(server: Script, status: int, body: bytes, code: int, message: str) -> None:
    """The exit code tells an unknown gang from a Muster that cannot be asked."""
    server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (status, body)
    result = explain("team/train", "--server", server.url)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_nobody_listening_says_what_to_do() -> None:
    """Where it was asked, and how to get there."""
    result = explain("train", "--server", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
    assert "is Muster running there (kubectl port-forward, for example)?" in result.stderr


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(server: Script) -> None:
    """By the gangs of that namespace; exit code 3 all the same."""
    server.answers["/api/v1/gangs/team/trainn/explain?suggestions=true"] = (404, b'{"detail":"no gang team/trainn"}')
    answer(server, "/api/v1/gangs?namespace=team", {"gangs": [gang("team/train")]})
    result = explain("trainn", "-n", "team", "--server", server.url)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "muster explain: no gang team/trainn; did you mean team/train?\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a/b/c"], "'a/b/c' is no NAMESPACE/NAME of a gang"),
        (["a b"], "'a b' is no NAMESPACE/NAME of a gang"),
        (["g", "--server", "localhost:10261"], "--server localhost:10261 is not an address such as"),
        (["g", "--server", "http://h/path"], "--server http://h/path is not an address such as"),
        (["g", "--server", "http://h:99999"], "--server http://h:99999: Port out of range"),
        (["g", "--ca-file", "ca.crt"], "--ca-file is for --server https://...; a kubeconfig has its own"),
        (["g", "--server", "https://h", "--cert-file", "c"], "--cert-file and --key-file go together"),
        (["g", "--server", "https://h", "--ca-file", "/nowhere/ca.crt"], "--ca-file: "),
        (
            ["g", "--server", "https://h", "--cert-file", "/nowhere/c", "--key-file", "/nowhere/k"],
            "--cert-file, --key-file: ",
        ),
    ],
)
def test_options_that_cannot_be_used_are_refused(arguments: list[str], message: str) -> None:
    """Exit code 2, naming the option and its value."""
    result = explain(*arguments)
    assert result.exit_code == 2
    assert f"muster explain: {message}" in result.stderr


def test_https_is_asked_over_tls() -> None:
    """A server that does not speak TLS is not asked in the clear."""
    result = explain("train", "--server", f"https://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


FALL = {
    "pods": 2,
    "request": {"cpu": "8", "nvidia.com/gpu": "8"},
    "nodes": 512,
    "steps": [
        {"cause": "Tainted", "nodes": 12, "left": 500, "detail": "taint dedicated=infra:NoSchedule: 12 nodes"},
        {"cause": "SelectorMismatch", "nodes": 0, "left": 500, "detail": ""},
        {"cause": "TooFull", "nodes": 499, "left": 1, "detail": "nvidia.com/gpu: 499 nodes"},
    ],
    "usable": 1,
    "fits": 1,
}
HOLDER = {"gang": "team/old", "gpus": 64, "nodes": 8, "priority": 3, "queue": None, "endsAt": None, "overdue": False}
SUGGESTION = {"change": "minMember", "from": 2, "to": 1, "message": "minMember 1 instead of 2: so many would be placed"}


def document(**fields: object) -> dict[str, object]:
    """Return what is said of a gang that waits."""
    wait = Wait(Reason.INSUFFICIENT_CAPACITY, {"minMember": 2, "fits": 1})
    found: dict[str, object] = json.loads(explanation(wait=wait))
    return found | {"waterfall": [FALL], "holders": [HOLDER], "suggestions": [SUGGESTION]} | fields


class TestWhatIsInTheWay:
    """Nodes, holders and changes, as people read them."""

    def test_the_nodes_that_are_left(self, server: Script) -> None:
        """Each cause with how many it takes, a bar, and what it mostly was; none that takes nothing."""
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, json.dumps(document()).encode())
        lines = explain("team/train", "--server", server.url).stdout.splitlines()
        at = lines.index("2 pods asking for 8 cpu, 8 nvidia.com/gpu:")
        whole, tainted, full, left = lines[at + 1 : at + 5]
        assert whole.split()[:4] == ["all", "nodes", "512", "█" * 24]
        assert tainted.split()[:3] == ["Tainted", "-12", "500"]
        assert tainted.endswith("taint dedicated=infra:NoSchedule: 12 nodes")
        assert full.split()[:3] == ["TooFull", "-499", "1"]
        assert left == "  1 node left, with room for 1 of 2"

    def test_who_holds_what_it_lacks(self, server: Script) -> None:
        """With how much, and until when as far as that is known."""
        later = HOLDER | {"gang": "team/late", "endsAt": "2026-11-21T12:00:00Z", "overdue": True, "queue": "q"}
        held = json.dumps(document(holders=[HOLDER, later])).encode()
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, held)
        lines = explain("team/train", "--server", server.url).stdout.splitlines()
        first, second = (line.split() for line in lines if line.startswith("  team/"))
        assert first == ["team/old", "64", "8", "3", "-", "not", "known"]
        assert second == ["team/late", "64", "8", "3", "q", local_time("2026-11-21T12:00:00Z"), "(overdue)"]

    def test_what_would_help(self, server: Script) -> None:
        """One line for each change, and why a gang is where it is for one that is placed."""
        choice = {"considered": 4, "lines": ["4 of 4 nodes would take a member"]}
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (
            200,
            json.dumps(document(choice=choice)).encode(),
        )
        text = explain("team/train", "--server", server.url).stdout
        assert "it would start now with one of these changes:\n  minMember 1 instead of 2: so many" in text
        assert "why there:\n  4 of 4 nodes would take a member\n" in text

    def test_wide_lists_everything(self, server: Script) -> None:
        """All members, and all kinds of pods."""
        many = document(waterfall=[FALL] * 5, pods=json.loads(explanation(members=50))["pods"])
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, json.dumps(many).encode())
        short = explain("team/train", "--server", server.url).stdout
        wide = explain("team/train", "--server", server.url, "-o", "wide").stdout
        assert short.count("asking for") == 3
        assert "and 2 kinds of pods more (-o wide has all)" in short
        assert wide.count("asking for") == 5
        assert "train-49" in wide

    def test_texts_cannot_steer_the_terminal(self, server: Script) -> None:
        """What people wrote into objects is shown, not obeyed."""
        said = json.dumps(document(remarks=["x \x1b[2Jy", "[bold]z"])).encode()
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, said)
        text = explain("team/train", "--server", server.url).stdout
        assert "\x1b" not in text
        assert "[bold]z" in text

    def test_yaml_is_the_document_too(self, server: Script) -> None:
        """As the service sent it."""
        server.answers["/api/v1/gangs/team/train/explain?suggestions=true"] = (200, json.dumps(document()).encode())
        result = explain("team/train", "--server", server.url, "-o", "yaml")
        assert yaml.safe_load(result.stdout) == document()


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {when: 2026-11-21}}
spec: {parallelism: 2}
"""


class TestWhatIf:
    """Questions about files."""

    @staticmethod
    def answers(server: Script, *gangs: dict[str, object]) -> None:
        """Let the service say this of what it is asked about."""
        server.answers["/api/v1/explain"] = (200, json.dumps({"gangs": gangs}).encode())

    def test_a_gang_that_would_start(self, server: Script, tmp_path: Path) -> None:
        """Where, and exit code 0; the file's objects are what was asked about."""
        file = tmp_path / "job.yaml"
        file.write_text(JOB, encoding="utf-8")
        placed = json.loads(explanation()) | {"hypothetical": True, "wouldStart": True, "assumptions": ["assumed"]}
        self.answers(server, placed)
        result = explain("-f", str(file), "--dry-run", "--server", server.url)
        assert result.exit_code == 0
        assert "team/train: would start now on 2 nodes, 329 GB/s predicted, within rack r1" in result.stdout
        assert "  assumed\n" in result.stdout
        (asked,) = json.loads(server.bodies[-1])["objects"]
        assert asked["spec"] == {"parallelism": 2}
        assert asked["metadata"]["namespace"] == "default"

    def test_a_gang_that_would_wait(self, server: Script) -> None:
        """Exit code 4; several gangs are counted; lists and further documents are read, in the namespace of -n."""
        waiting = document(hypothetical=True, wouldStart=False, assumptions=[])
        self.answers(server, waiting, waiting | {"wouldStart": True})
        item = {"kind": "Pod", "metadata": {"name": "a", "namespace": "own"}}
        text = f"{JOB}---\n---\n{json.dumps({'kind': 'List', 'items': [item, {'kind': 'Pod', 'metadata': {}}]})}\n"
        result = explain("-f", "-", "-n", "team", "--server", server.url, stdin=text)
        assert result.exit_code == 4
        assert "team/train: would wait" in result.stdout
        assert "1 of 2 gangs would start now, each evaluated by itself" in result.stdout
        job, listed = json.loads(server.bodies[-1])["objects"]
        assert job["metadata"]["namespace"] == "team"
        assert [one["metadata"]["namespace"] for one in listed["items"]] == ["own", "team"]

    def test_programs_get_the_document(self, server: Script) -> None:
        """And the same exit code."""
        self.answers(server, document(wouldStart=False, assumptions=[]))
        result = explain("-f", "-", "-o", "json", "--server", server.url, stdin=JOB)
        assert result.exit_code == 4
        assert json.loads(result.stdout) == {"gangs": [document(wouldStart=False, assumptions=[])]}

    def test_what_muster_refuses_is_a_refused_argument(self, server: Script) -> None:
        """Exit code 2, with object and field."""
        server.answers["/api/v1/explain"] = (400, b'{"detail":"Job default/train: spec.parallelism: -1 is negative"}')
        result = explain("-f", "-", "--server", server.url, stdin=JOB)
        assert (result.exit_code, result.stderr) == (
            2,
            "muster explain: Job default/train: spec.parallelism: -1 is negative\n",
        )

    @pytest.mark.parametrize(
        ("arguments", "text", "message"),
        [
            ([], "", "give the name of a gang, or -f FILE with objects that are not submitted yet"),
            (["g", "-f", "-"], "", "give the name of a gang, or -f FILE"),
            (["g", "--dry-run"], "", "--dry-run goes with -f FILE"),
            (["-f", "-", "--picture", "x.svg"], "", "--picture draws gangs that exist; leave it out with -f"),
            (["-f", "-", "-f", "-"], "", "-f -: standard input can be read once"),
            (["-f", "/nowhere/job.yaml"], "", "-f /nowhere/job.yaml: No such file or directory"),
            (["-f", "-"], "a: [", "standard input: line 1, column 5: expected the node content, but found"),
            (["-f", "-"], "---\n", "-: there is no object"),
            (["-f", "-"], "- a\n", "standard input: a document is no Kubernetes object"),
            (["-f", "-"], "a: !!binary aGk=\n", "-: cannot be sent as JSON: Type is not JSON serializable: bytes"),
        ],
    )
    def test_what_cannot_be_asked_about_is_refused(self, arguments: list[str], text: str, message: str) -> None:
        """Exit code 2 without asking anybody, naming the option or the file."""
        result = explain(*arguments, "--server", "http://127.0.0.1:1", stdin=text)
        assert result.exit_code == 2
        assert f"muster explain: {message}" in result.stderr

    def test_a_file_that_is_no_text_is_refused(self, tmp_path: Path) -> None:
        """With its name."""
        file = tmp_path / "job.yaml"
        file.write_bytes(b"\xff\xfe")
        result = explain("-f", str(file), "--server", "http://127.0.0.1:1")
        assert result.exit_code == 2
        assert f"muster explain: -f {file}: 'utf-8' codec can't decode" in result.stderr
