"""`muster check-config` against the judgement of kube-scheduler itself."""

import subprocess
from pathlib import Path

import pytest
import yaml

from localcluster.build import built_binaries
from localcluster.credentials import Connection
from localcluster.programs import Binary
from tests.lab.tools.schedulerconfig.cases import CASES
from tests.lab.tools.schedulerconfig.conftest import changed
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane


class Scheduler:
    """A kube-scheduler that reads a configuration, writes it out completed, and ends."""

    def __init__(self, folder: Path) -> None:
        """Keep what it needs in `folder`; it asks no API server."""
        self._executable = built_binaries()[Binary.KUBE_SCHEDULER]
        self._folder = folder
        nowhere = Connection("http://127.0.0.1:1", folder / "none.crt", "token")
        self._kubeconfig = nowhere.write_kubeconfig(folder / "kubeconfig")
        kubeconfig = yaml.safe_load(self._kubeconfig.read_text(encoding="utf-8"))
        del kubeconfig["clusters"][0]["cluster"]["certificate-authority"]
        self._kubeconfig.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")

    def refusal(self, text: str) -> str:
        """Return why kube-scheduler refuses a configuration, "" if it does not."""
        first, *others = text.split("\n---\n")
        document = yaml.safe_load(first)
        document["clientConnection"]["kubeconfig"] = str(self._kubeconfig)
        config = self._folder / "config.yaml"
        config.write_text("\n---\n".join([yaml.safe_dump(document), *others]), encoding="utf-8")
        done = subprocess.run(
            [
                self._executable,
                f"--config={config}",
                f"--write-config-to={self._folder / 'completed.yaml'}",
                f"--authentication-kubeconfig={self._kubeconfig}",
                f"--authorization-kubeconfig={self._kubeconfig}",
                "--authentication-skip-lookup=true",
                "--secure-port=0",
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        return "" if done.returncode == 0 else done.stderr[-500:]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    """Return a kube-scheduler to ask."""
    return Scheduler(tmp_path_factory.mktemp("check-config"))


def test_kube_scheduler_refuses_what_is_said_to_be_refused(scheduler: Scheduler) -> None:
    """Where a finding says that kube-scheduler refuses to start, it does, and nowhere else."""
    assert scheduler.refusal(changed(lambda _: None)) == ""
    answers = {case.name: scheduler.refusal(changed(case.change)) for case in CASES}
    surprises = {case.name: answers[case.name] for case in CASES if bool(answers[case.name]) != case.refused}
    assert surprises == {}


def test_kube_scheduler_reads_only_the_first_document(scheduler: Scheduler) -> None:
    """A second document in the file is not read, whatever stands in it."""
    assert scheduler.refusal(f"{changed(lambda _: None)}\n---\nnonsense: true\n") == ""
