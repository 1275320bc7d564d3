"""How schedulers and Muster are configured and started."""

from pathlib import Path

import pytest
import yaml

from localcluster import components
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.credentials import Connection
from localcluster.errors import LocalClusterError
from localcluster.reaper import Reaper

MUSTER = SCHEDULER_CONFIGS / "muster.yaml"
STOCK = SCHEDULER_CONFIGS / "stock.yaml"
KUBECONFIG = Path("/run/config")


def load(path: Path) -> dict[str, object]:
    """Return a YAML file's content."""
    content: dict[str, object] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_rendered_configuration_is_the_shipped_one_with_other_addresses() -> None:
    """Tests and users run the same file: nothing but addresses and leader election differs."""
    rendered = SchedulerProfile(MUSTER, extender_port=12345).render(KUBECONFIG)
    (extender,) = rendered["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:12345/v1"
    assert rendered["clientConnection"].pop("kubeconfig") == "/run/config"
    assert rendered["leaderElection"]["leaderElect"] is False
    extender["urlPrefix"] = "http://127.0.0.1:10261/v1"
    rendered["leaderElection"]["leaderElect"] = True
    assert rendered == load(MUSTER)


def test_profile_can_be_renamed() -> None:
    """A second scheduler of the same configuration serves other pods."""
    rendered = SchedulerProfile(STOCK, scheduler_name="other").render(KUBECONFIG)
    assert rendered["profiles"] == [{"schedulerName": "other"}]


def test_profile_can_look_at_other_shares_of_the_nodes() -> None:
    """The same configuration is compared with itself, made to look at every node."""
    assert SchedulerProfile(STOCK, percentage_of_nodes_to_score=100).render(KUBECONFIG) == {
        **SchedulerProfile(STOCK).render(KUBECONFIG),
        "percentageOfNodesToScore": 100,
    }


def test_profile_can_have_a_shorter_lease() -> None:
    """Storms let the Lease run out often; it is given up a second before it does."""
    election = SchedulerProfile(MUSTER, leader_election=True, lease_seconds=3).render(KUBECONFIG)["leaderElection"]
    assert (election["leaderElect"], election["leaseDuration"], election["renewDeadline"]) == (True, "3s", "2s")


def test_profile_can_wait_longer_for_the_extender() -> None:
    """Held bind calls are answered late where gangs of thousands are measured."""
    (extender,) = SchedulerProfile(MUSTER, extender_timeout_seconds=160).render(KUBECONFIG)["extenders"]
    assert extender["httpTimeout"] == "160s"


def test_stock_configuration_differs_in_the_extender_and_what_it_needs() -> None:
    """The comparison is fair: same client limits; how many nodes are looked at is kube-scheduler's own default."""
    muster, stock = load(MUSTER), load(STOCK)
    assert muster.pop("extenders")
    muster.pop("percentageOfNodesToScore", None)
    named_apart = ("profiles", "leaderElection")
    assert {key: value for key, value in muster.items() if key not in named_apart} == {
        key: value for key, value in stock.items() if key not in named_apart
    }


def test_sample_configuration_keeps_what_muster_depends_on() -> None:
    """Each of these settings, changed, would break gangs in a way that is hard to see."""
    (extender,) = SchedulerProfile(MUSTER).render(KUBECONFIG)["extenders"]
    assert extender["nodeCacheCapable"] is True
    assert extender["ignorable"] is False
    assert extender["httpTimeout"] == "30s"
    assert "managedResources" not in extender
    assert {key: value for key, value in extender.items() if key.endswith("Verb")} == {
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
    }
    assert load(MUSTER)["percentageOfNodesToScore"] == 100


def test_muster_is_started_with_its_own_kubeconfig_and_address(tmp_path: Path, reaper: Reaper) -> None:
    """The command line names kubeconfig, host and port, then what the test adds."""
    connection = Connection("https://127.0.0.1:6443", tmp_path / "ca.crt", "muster-token")
    server = components.muster(
        tmp_path,
        reaper,
        port=12345,
        connection=connection,
        command=["muster"],
        extra_arguments=["--config", "settings.yaml"],
    )
    kubeconfig = tmp_path / "muster.kubeconfig"
    assert list(server.command.arguments) == [
        *("muster", "serve", "--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", "--port", "12345"),
        *("--config", "settings.yaml"),
    ]
    assert "muster-token" in kubeconfig.read_text(encoding="utf-8")


def test_empty_command_is_refused(tmp_path: Path, reaper: Reaper) -> None:
    """A Muster without a program is a mistake of the caller."""
    connection = Connection("https://127.0.0.1:6443", tmp_path / "ca.crt", "token")
    with pytest.raises(LocalClusterError, match="the command that starts Muster is empty"):
        components.muster(tmp_path, reaper, port=1, connection=connection, command=[])


def test_few_controllers_run(tmp_path: Path, reaper: Reaper) -> None:
    """kube-controller-manager runs what claims, Jobs and StatefulSets need, and no more that would take processors."""
    connection = Connection("https://127.0.0.1:6443", tmp_path / "ca.crt", "token")
    server = components.kube_controller_manager(
        Path("/bin/kcm"), tmp_path, reaper, port=1, connection=connection, feature_gates={"A": True}
    )
    (controllers,) = (each for each in server.command.arguments if each.startswith("--controllers="))
    assert controllers.removeprefix("--controllers=").split(",") == [
        "resourceclaim-controller",
        "garbage-collector-controller",
        "job-controller",
        "statefulset-controller",
    ]
    assert "--feature-gates=A=true" in server.command.arguments
