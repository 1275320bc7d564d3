"""Callers who may see some namespaces, on a real API server: each sees its own gangs, whichever way it asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from extender.kube.api import TOKEN_HEADER
from localcluster.client import Resource
from localcluster.cluster import MUSTER_NAMESPACE
from localcluster.ports import LOOPBACK
from localcluster.waiting import wait_until
from tests.controlplane.reaching import GANG, Reachable, make_caller, reachable_muster, role_binding
from tests.kube.certificates import Certificate, make_certificate

pytestmark = pytest.mark.controlplane

TEAMS = ("team-a", "team-b")
#: How long an answer of the API server counts in Muster, and some more (seconds).
RIGHTS_SECONDS = 45.0
BINDINGS = Resource("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
READS = (
    *("status", "gangs", "demand", "board", "events", "nodes", "capacity", "queues", "history", "report", "curves"),
    *(f"gangs/{team}/secret-of-{team}/{part}" for team in TEAMS for part in ("explain", "picture.svg")),
    *(f"events?gang={team}/secret-of-{team}" for team in TEAMS),
)


@dataclass(frozen=True)
class Readers:
    """A Muster that asks who calls, and the tokens of who does."""

    reached: Reachable
    tokens: dict[str, str]
    certificate: Certificate

    def ask(self, path: str, caller: str, header: str = "Authorization") -> httpx.Response:
        """Return the answer to a caller at the listener for people."""
        url = f"http://{LOOPBACK}:{self.reached.view_port}{path}"
        token = self.tokens.get(caller, caller)
        return httpx.get(url, headers={header: f"Bearer {token}"} if token else {}, trust_env=False)

    def gangs(self, caller: str) -> list[str]:
        """Return which gangs a caller is shown."""
        answer = self.ask("/api/v1/gangs", caller)
        assert answer.status_code == 200, answer.text
        return sorted(f"{row['namespace']}/{row['name']}" for row in answer.json()["gangs"])


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    """Run a Muster that answers nobody without a token, and make who asks."""
    place = tmp_path_factory.mktemp("readers")
    settings = {"anonymous_reads": False, "history_store": str(place / "history.db")}
    (place / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    arguments = ["--config", str(place / "settings.yaml")]
    known = make_certificate(place, "certified")
    server = [f"--client-ca-file={known.certificate}"]
    with reachable_muster(tmp_path_factory.mktemp("control"), arguments, "muster-scheduler", server) as reached:
        admin, tokens = reached.running.admin, {}
        for team in TEAMS:
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        for name in (*TEAMS, "nobody"):
            connection = make_caller(reached.running, name, "muster-view")
            connection.write_kubeconfig(reached.folder / name)
            tokens[name] = connection.token
        for team in TEAMS:
            gang = f"secret-of-{team}"
            meta = {"namespace": team, "name": f"{gang}-0", "labels": {"muster.dev/gang": gang}}
            admin.create(GANG | {"metadata": GANG["metadata"] | meta})
            # What `view` has by aggregation, for which a controller would have to run.
            subject = {"kind": "ServiceAccount", "name": team}
            admin.create(role_binding(team, "ClusterRole", "muster:podgroup-viewer", subject))
        tokens["admin"] = reached.running.control_plane.admin.token
        admin.create(role_binding(MUSTER_NAMESPACE, "Role", "muster-view", {"kind": "User", "name": "certified"}))
        found = Readers(reached, tokens, known)
        every = ["default/train", *(f"{team}/secret-of-{team}" for team in TEAMS)]
        wait_until(lambda: found.gangs("admin") == every, timeout_seconds=40, description="all gangs are known")
        wait_until(
            lambda: found.ask("/api/v1/history", "admin").status_code == 200,
            timeout_seconds=40,
            description="the history is there",
        )
        yield found


def test_each_sees_its_own_gangs(readers: Readers) -> None:
    """By a RoleBinding in a namespace; without any right the list is empty, and no error."""
    for team in TEAMS:
        assert readers.gangs(team) == [f"{team}/secret-of-{team}"]
    assert readers.gangs("nobody") == []


def test_no_path_tells_of_others(readers: Readers) -> None:
    """Whatever is asked, the page's stream included: an answer without names of others, or a refusal."""
    for caller, other in (("team-a", "team-b"), ("team-b", "team-a"), ("nobody", "team-")):
        for path in READS:
            answer = readers.ask(f"/api/v1/{path}", caller)
            assert answer.status_code in {200, 403}, (caller, path, answer.text)
            told = answer.text.replace(path, "").replace(f"events?gang={other}", "")
            assert f"secret-of-{other}" not in told, (caller, path)
        assert f"secret-of-{other}" not in _first_event(readers, caller)
    assert "secret-of-team-a" in _first_event(readers, "team-a")


def _first_event(readers: Readers, caller: str) -> str:
    """Return the first event of the page's stream."""
    url = f"http://{LOOPBACK}:{readers.reached.view_port}/api/v1/stream"
    shown = {"Authorization": f"Bearer {readers.tokens[caller]}"}
    with httpx.stream("GET", url, headers=shown, trust_env=False) as answer:
        text = ""
        for part in answer.iter_text():
            text += part
            if "event: board" in text and text.endswith("\n\n"):
                return text
    raise AssertionError(f"no board came: {text[:200]}")


def test_who_is_not_known_is_refused(readers: Readers) -> None:
    """401 for a token that the API server does not know, and for none; health and the page's files need none."""
    unknown = readers.ask("/api/v1/gangs", "stolen")
    assert (unknown.status_code, "log in again" in unknown.text) == (401, True)
    none = readers.ask("/api/v1/gangs", "")
    assert (none.status_code, TOKEN_HEADER in none.text) == (401, True)
    assert [readers.ask(path, "").status_code for path in ("/healthz", "/", "/metrics")] == [200, 200, 401]
    assert readers.ask("/metrics", "team-a").status_code == 403
    assert readers.ask("/metrics", "admin").status_code == 200


def test_a_kubeconfig_is_enough(readers: Readers) -> None:
    """Through the API server's proxy, which takes the Authorization header away: its token goes by another."""
    for team in TEAMS:
        done = readers.reached.ask(team, "gangs", "-A", "-o", "name")
        assert (done.exit_code, done.stdout.split()) == (0, [f"{team}/secret-of-{team}"]), done.stderr
    done = readers.reached.ask("nobody", "status", "-o", "json")
    assert sum(json.loads(done.stdout)["gangs"].values()) == 0, done.stderr
    assert "2 gangs of other namespaces are not shown" in readers.reached.ask("team-b", "gangs", "-A").stderr
    refused = readers.reached.ask("team-a", "explain", "team-b/secret-of-team-b")
    assert (refused.exit_code, "in namespace team-b" in refused.stderr) == (1, True), refused.stderr


def test_a_client_certificate_is_told_what_to_do(readers: Readers, tmp_path: Path) -> None:
    """It ends at the API server; a token in a file is shown instead."""
    config = yaml.safe_load((readers.reached.folder / "team-a").read_text(encoding="utf-8"))
    files = {"client-certificate": readers.certificate.certificate, "client-key": readers.certificate.key}
    config["users"][0]["user"] = {name: str(file) for name, file in files.items()}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = readers.reached.ask(kubeconfig, "gangs", "-A", "-o", "name")
    assert done.exit_code == 1
    assert "--token-file (kubectl create token NAME makes one)" in done.stderr
    (tmp_path / "token").write_text(readers.tokens["team-b"])
    done = readers.reached.ask(kubeconfig, "gangs", "-A", "-o", "name", "--token-file", str(tmp_path / "token"))
    assert (done.exit_code, done.stdout.split()) == (0, ["team-b/secret-of-team-b"]), done.stderr


def test_without_the_api_servers_word_nobody_is_let_in(readers: Readers) -> None:
    """A Muster that may not ask who calls says so, and shows nothing, until it may again."""
    admin = readers.reached.running.admin
    binding = admin.get(BINDINGS, "muster:kube-scheduler")
    admin.request("DELETE", BINDINGS.path(None, "muster:kube-scheduler"))
    try:
        wait_until(
            lambda: readers.ask("/api/v1/gangs", "new").status_code == 503,
            timeout_seconds=RIGHTS_SECONDS,
            description="Muster may not ask any more",
        )
        assert "Muster itself may not create tokenreviews" in readers.ask("/api/v1/gangs", "newer").text
    finally:
        binding["metadata"] = {"name": binding["metadata"]["name"]}
        admin.create(binding)
    wait_until(
        lambda: readers.ask("/api/v1/gangs", "newest").status_code == 401,
        timeout_seconds=RIGHTS_SECONDS,
        description="Muster may ask again",
    )
