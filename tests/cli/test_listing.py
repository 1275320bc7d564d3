"""Lists as kubectl has them: namespaces, names, order, formats, changes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli import listing
from extender.cli.commands import app
from tests.cli.answers import answer, event, gang, node, queue, waiting
from tests.cli.conftest import Script

GANGS = "/api/v1/gangs"
PODS = "/api/v1/namespaces/muster-system/pods?labelSelector=app.kubernetes.io/name%3Dmuster"
PROXY = "/api/v1/namespaces/muster-system/pods/http:muster-a:10263/proxy"


def ask(server: Script, *arguments: str) -> Result:
    """Run a command against a Muster."""
    return CliRunner().invoke(app, [*arguments, "--server", server.url])


@pytest.fixture
def cluster(server: Script, kubeconfig: Path) -> Path:
    """Return a kubeconfig whose context has the namespace team-a, of a cluster where Muster runs."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["contexts"][0]["context"]["namespace"] = "team-a"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    ports = [{"name": "view", "containerPort": 10263}]
    pod = {
        "metadata": {"name": "muster-a", "namespace": "muster-system"},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    answer(server, PODS, {"items": [pod]})
    return kubeconfig


def by_kubeconfig(kubeconfig: Path, *arguments: str) -> Result:
    """Run a command as somebody with a kubeconfig does."""
    return CliRunner().invoke(app, [*arguments, "--kubeconfig", str(kubeconfig)], env={"MUSTER_SERVER": None})


class TestNamespaces:
    """Which namespace is meant."""

    def test_the_contexts_is_the_default(self, server: Script, cluster: Path) -> None:
        """As with kubectl; what is empty says how to see more."""
        answer(server, f"{PROXY}{GANGS}?namespace=team-a", {"gangs": []})
        result = by_kubeconfig(cluster, "gangs")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "no gangs, namespace team-a; -A lists those of all namespaces\n"

    def test_all_of_them_are_asked_for_by_a(self, server: Script, cluster: Path) -> None:
        """And one by -n."""
        answer(server, f"{PROXY}{GANGS}", {"gangs": [gang("team/train")]})
        answer(server, f"{PROXY}{GANGS}?namespace=team-b", {"gangs": [gang("team-b/eval")]})
        assert by_kubeconfig(cluster, "gangs", "-A", "-o", "name").stdout == "team/train\n"
        assert by_kubeconfig(cluster, "gangs", "-n", "team-b", "-o", "name").stdout == "team-b/eval\n"

    def test_a_name_is_one_of_it(self, server: Script, cluster: Path) -> None:
        """Of the context's, of that of -n, or of the one in front of it."""
        found = [gang("team-a/train"), gang("team-b/train"), gang("team-c/train")]
        answer(server, f"{PROXY}{GANGS}", {"gangs": found})
        asked = by_kubeconfig(cluster, "gangs", "train", "team-c/train", "-o", "name")
        assert asked.stdout.split() == ["team-a/train", "team-c/train"]
        assert by_kubeconfig(cluster, "gangs", "train", "-n", "team-b", "-o", "name").stdout == "team-b/train\n"

    def test_another_context_has_its_own(self, server: Script, cluster: Path) -> None:
        """`default` where it names none."""
        answer(server, f"{PROXY}{GANGS}?namespace=default", {"gangs": [gang("default/train")]})
        assert by_kubeconfig(cluster, "gangs", "--context", "there", "-o", "name").stdout == "default/train\n"

    def test_an_address_has_no_context(self, server: Script) -> None:
        """So all are listed, and a name alone is one of `default`."""
        answer(server, GANGS, {"gangs": [gang("default/train"), gang("team/train")]})
        assert ask(server, "gangs", "-o", "name").stdout == "default/train\nteam/train\n"
        assert ask(server, "gangs", "train", "-o", "name").stdout == "default/train\n"

    def test_decisions_of_others_are_left_out(self, server: Script, cluster: Path) -> None:
        """Those about no gang are for all."""
        found = [event(1, about="team-a/train"), event(2, about="team-b/train"), event(3, about="")]
        answer(server, f"{PROXY}/api/v1/events?limit=2000", {"next": 3, "events": found})
        told = by_kubeconfig(cluster, "events", "-o", "json")
        assert [each["seq"] for each in json.loads(told.stdout)["events"]] == [1, 3]
        two = by_kubeconfig(cluster, "events", "train", "team-b/train", "--limit", "1", "-o", "json")
        assert [each["seq"] for each in json.loads(two.stdout)["events"]] == [2]

    def test_history_is_of_it_too(self, server: Script, cluster: Path) -> None:
        """By Muster's own choice."""
        answer(server, f"{PROXY}/api/v1/history?namespace=team-a&limit=100", {"gangs": [], "asOf": "", "next": None})
        assert "no gangs, namespace team-a; -A lists" in by_kubeconfig(cluster, "history").stderr


class TestNames:
    """Names as arguments."""

    def test_what_is_missing_is_told_after_what_is_there(self, server: Script) -> None:
        """With what was probably meant, and an exit code of its own."""
        answer(server, GANGS, {"gangs": [waiting("team/next"), gang("team/train")]})
        result = ask(server, "gangs", "team/train", "team/nxet", "-o", "name")
        assert (result.exit_code, result.stdout) == (3, "team/train\n")
        assert result.stderr == "muster gangs: there is no team/nxet; did you mean team/next?\n"

    @pytest.mark.parametrize(
        ("command", "document"),
        [
            ("queues", {"queues": [queue("research"), queue("serving")]}),
            ("nodes", {"levels": [], "nodes": [node("research", [""]), node("serving", [""])]}),
        ],
    )
    def test_other_lists_have_them_too(self, server: Script, command: str, document: dict[str, Any]) -> None:
        """Without a namespace."""
        answer(server, f"/api/v1/{command}", document)
        assert ask(server, command, "serving", "-o", "name").stdout == "serving\n"
        assert "did you mean research?" in ask(server, command, "researhc").stderr


class TestOrder:
    """--sort-by."""

    @pytest.mark.parametrize(
        ("path", "names"),
        [
            (".gpus", ["a/small", "a/g2", "a/g10"]),
            ("-GPUS", ["a/g10", "a/g2", "a/small"]),
            ("{.metadata.name}", ["a/g2", "a/g10", "a/small"]),
            ("name", ["a/g2", "a/g10", "a/small"]),
            (".position", ["a/g10", "a/small", "a/g2"]),
        ],
    )
    def test_rows_are_in_the_order_of_a_field(self, server: Script, path: str, names: list[str]) -> None:
        """Numbers by value, names as people count, what has none last; the JSON too."""
        rows = [gang("a/small", gpus=1), gang("a/g2", gpus=8), waiting("a/g10", gpus=64)]
        answer(server, GANGS, {"gangs": rows})
        assert ask(server, "gangs", "--sort-by", path, "-o", "name").stdout.split() == names
        told = json.loads(ask(server, "gangs", "--sort-by", path, "-o", "json").stdout)
        assert [f"{row['namespace']}/{row['name']}" for row in told["gangs"]] == names

    def test_what_is_no_field_is_refused(self, server: Script) -> None:
        """With the one that was probably meant."""
        result = ask(server, "gangs", "--sort-by", ".prioritty")
        assert result.exit_code == 2
        assert "--sort-by .prioritty: rows have no such field; did you mean priority?" in result.stderr

    def test_an_order_takes_the_place_of_a_tree(self, server: Script) -> None:
        """Queues stand by themselves, nodes under no domains."""
        answer(server, "/api/v1/queues", {"queues": [queue("b", "a", pendingGangs=2), queue("a")]})
        shown = ask(server, "queues", "--sort-by", "-pendingGangs", "--no-headers").stdout
        assert [line.split()[0] for line in shown.splitlines()] == ["b", "a"]
        found = [node("n1", [""], domains=["r1"]), node("n2", ["", ""], domains=["r0"])]
        answer(server, "/api/v1/nodes", {"levels": ["rack"], "nodes": found})
        shown = ask(server, "nodes", "--sort-by", ".gpus.free").stdout
        assert [line.split()[0] for line in shown.splitlines()] == ["NODE", "n1", "n2"]


class TestFormats:
    """-o, of every list."""

    def test_templates_find_items_with_metadata(self, server: Script) -> None:
        """As they do with kubectl; Muster's own names of things work too."""
        answer(server, GANGS, {"gangs": [waiting("team/next"), gang("team/train")]})
        path = "jsonpath={.items[*].metadata.name} {.items[0].metadata.namespace} {.gangs[1].gpus}"
        assert ask(server, "gangs", "-o", path).stdout == "next train team 32"

    def test_columns_can_be_chosen(self, server: Script) -> None:
        """With headings, and without."""
        answer(server, "/api/v1/nodes", {"levels": [], "nodes": [node("n1", ["", "a/b"])]})
        columns = "custom-columns=NAME:.metadata.name,FREE:.gpus.free"
        assert ask(server, "nodes", "-o", columns).stdout == "NAME  FREE\nn1    1\n"
        assert ask(server, "nodes", "-o", columns, "--no-headers").stdout == "n1  1\n"

    def test_a_template_of_one_name_is_about_that_row(self, server: Script) -> None:
        """As kubectl has no list around one object; `items` are there too."""
        answer(server, GANGS, {"gangs": [gang("team/train"), gang("team/eval")]})
        path = "jsonpath={.metadata.name} {.gpus} {.items[*].name}"
        assert ask(server, "gangs", "team/train", "-o", path).stdout == "train 32 train"
        assert ask(server, "gangs", "team/train", "team/eval", "-o", path).stdout == "  train eval"

    def test_csv_has_a_line_for_each_row(self, server: Script) -> None:
        """Of what there is to say of it."""
        answer(server, "/api/v1/queues", {"queues": [queue("a"), queue("b")]})
        rows = list(csv.DictReader(io.StringIO(ask(server, "queues", "-o", "csv").stdout)))
        assert [(row["name"], row["pendingGangs"], row["flavors"]) for row in rows] == [
            ("a", "0", "[]"),
            ("b", "0", "[]"),
        ]


class TestWatch:
    """-w: all of it, then what changes."""

    @pytest.fixture
    def rounds(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        """Return what has steps done while a watch waits, and Ctrl-C after the last."""

        def play(*steps: Callable[[], None]) -> None:
            left = list(steps)

            def wait(seconds: float) -> None:
                assert seconds == listing.WATCH_SECONDS
                if not left:
                    raise KeyboardInterrupt
                left.pop(0)()

            monkeypatch.setattr(listing, "wait", wait)

        return play

    def test_rows_that_change_are_printed_again(self, server: Script, rounds: Callable[..., None]) -> None:
        """In the columns of the table; what is gone is told, and Ctrl-C ends it well."""
        answer(server, GANGS, {"gangs": [waiting("team/next"), gang("team/train")]})
        rounds(
            lambda: answer(server, GANGS, {"gangs": [waiting("team/next"), gang("team/train", gpus=8)]}),
            lambda: answer(server, GANGS, {"gangs": [gang("team/train", gpus=8)]}),
        )
        result = ask(server, "gangs", "-w")
        assert result.exit_code == 0
        words = [line.split()[:4] for line in result.stdout.splitlines()]
        assert [line[0] for line in words] == ["GANG", "team/next", "team/train", "team/train"]
        assert words[3] == ["team/train", "Running", "4/4", "8"]
        assert result.stderr == "team/next is gone\n"

    @pytest.mark.parametrize(
        ("output", "lines"),
        [
            ("json", ['"gpus":32', '"gpus":8']),
            ("yaml", ["---", "gpus: 32", "---", "gpus: 8"]),
            ("jsonpath={.metadata.name}:{.gpus}", ["train:32train:8"]),
            ("name", ["team/train", "team/train"]),
            ("custom-columns=G:.gpus", ["G", "32", "8"]),
        ],
    )
    def test_programs_get_each_row_by_itself(
        self, server: Script, rounds: Callable[..., None], output: str, lines: list[str]
    ) -> None:
        """JSON is a row a line."""
        answer(server, GANGS, {"gangs": [gang("team/train")]})
        rounds(lambda: answer(server, GANGS, {"gangs": [gang("team/train", gpus=8)]}))
        shown = ask(server, "gangs", "-w", "-o", output).stdout
        place = 0
        for line in lines:
            place = shown.index(line, place) + len(line)
        if output == "json":
            assert [json.loads(line)["gpus"] for line in shown.splitlines()] == [32, 8]

    def test_a_watch_of_nothing_ends(self, server: Script, rounds: Callable[..., None]) -> None:
        """As kubectl's; where one of two names exists, that one is followed."""
        answer(server, GANGS, {"gangs": [gang("team/train")]})
        rounds()
        nothing = ask(server, "gangs", "team/trainn", "-w")
        assert (nothing.exit_code, nothing.stdout) == (3, "")
        assert nothing.stderr == "muster gangs: there is no team/trainn; did you mean team/train?\n"
        one = ask(server, "gangs", "team/train", "team/eval", "-w", "-o", "name")
        assert (one.exit_code, one.stdout) == (0, "team/train\n")
        assert "there is no team/eval" in one.stderr

    def test_a_name_is_of_one_namespace(self, server: Script) -> None:
        """So -A with a bare name is refused, as kubectl does."""
        refused = ask(server, "gangs", "train", "-A")
        assert (refused.exit_code, "write NAMESPACE/train, or leave out -A" in refused.stderr) == (2, True)

    def test_a_muster_that_goes_away_is_asked_again(self, server: Script, rounds: Callable[..., None]) -> None:
        """One that was never there ends the command."""
        answer(server, GANGS, {"gangs": [gang("team/train")]})
        rounds(
            lambda: answer(server, GANGS, {"detail": "nodes not synced"}, 503),
            lambda: answer(server, GANGS, {"gangs": [gang("team/train", gpus=8)]}),
        )
        result = ask(server, "gangs", "-w")
        assert (result.exit_code, len(result.stdout.splitlines())) == (0, 3)
        assert result.stderr == "muster gangs: nodes not synced; trying again in 2 s\n"
        answer(server, GANGS, {"detail": "nodes not synced"}, 503)
        assert ask(server, "gangs", "-w").exit_code == 1
