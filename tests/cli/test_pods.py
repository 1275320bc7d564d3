"""Which of Muster's pods is asked."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cli.asking import AskError
from extender.cli.pods import MusterPod, leading, running


def pod(name: str = "muster-a", *, args: tuple[str, ...] = (), ports: tuple[Any, ...] = (), **status: Any) -> MusterPod:
    """Return a pod that runs and is ready, as read from the API server."""
    conditions = [{"type": "Ready", "status": "True"}]
    return MusterPod.read(
        {
            "metadata": {"namespace": "muster-system", "name": name, **status.pop("metadata", {})},
            "spec": {"containers": [{"args": list(args), "ports": list(ports)}], **status.pop("spec", {})},
            "status": {"phase": "Running", "conditions": conditions, **status},
        }
    )


def test_a_pod_says_where_it_is_asked() -> None:
    """The port for people by its name, the verbs and the Lease by the command line."""
    view = {"name": "view", "containerPort": 10263}
    found = pod(args=("serve", "--port=9000", "--scheduler-lease", "kube-system/gangs"), ports=({"name": "x"}, view))
    assert (found.view_port, found.verbs_port, found.lease) == (10263, 9000, ("kube-system", "gangs"))
    assert str(found) == "pod muster-system/muster-a"


def test_what_a_pod_does_not_say_is_as_in_the_manifests() -> None:
    """Loopback only, port 10261, the Lease muster-system/muster."""
    found = pod(args=("--port",))
    assert (found.view_port, found.verbs_port, found.lease) == (None, 10261, ("muster-system", "muster"))
    assert MusterPod.read({}).phase == "Unknown"


def test_the_pod_that_holds_the_lease_is_asked() -> None:
    """By the hostname before the underscore, whole, and also where that is not the pod's name."""
    pods = [pod("muster-a"), pod("muster-ab"), pod("muster-c", spec={"hostname": "other"})]
    for holder, name in (("muster-ab_1-2", "muster-ab"), ("muster-a_1-2", "muster-a"), ("other_1", "muster-c")):
        assert leading(pods, {"spec": {"holderIdentity": holder}}).name == name


@pytest.mark.parametrize("lease", [None, {}, {"spec": None}, {"spec": {"holderIdentity": "gone_1"}}])
def test_without_a_holder_the_first_pod_is_asked(lease: Any) -> None:
    """It says itself whether it leads."""
    assert leading([pod("muster-a"), pod("muster-b")], lease).name == "muster-a"


def test_only_pods_that_run_are_asked_ready_ones_first() -> None:
    """Neither those that have not started nor those that are leaving."""
    pods = [
        pod("a", conditions=[{"type": "Ready", "status": "False"}]),
        pod("b"),
        pod("c", phase="Pending"),
        pod("d", metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}),
    ]
    assert [found.name for found in running(pods, "muster-system")] == ["b", "a"]


def test_no_pods_are_told_with_the_namespace() -> None:
    """And how to look elsewhere."""
    with pytest.raises(AskError, match=r"label app.kubernetes.io/name=muster in namespace gangs: .*--muster-namespace"):
        running([], "gangs")


def test_pods_that_do_not_run_are_told_with_their_phases() -> None:
    """What to look at next."""
    leaving = pod("b", metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"})
    with pytest.raises(AskError, match="no pod of Muster runs in namespace x: a is Pending, b is Terminating; kubectl"):
        running([pod("a", phase="Pending"), leaving], "x")
