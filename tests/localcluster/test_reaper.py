"""What happens to the children of a process that dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.reaper import Reaper, reap
from localcluster.waiting import wait_until

PARENT = """
import pathlib, subprocess, sys, time
from localcluster.reaper import Reaper
reaper = Reaper()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
reaper.watch_group(child.pid)
reaper.watch_folder(pathlib.Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(60)
"""


def exists(pid: int) -> bool:
    """Tell whether a process with this id exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_children_and_folder_of_a_killed_process_go_away(tmp_path: Path) -> None:
    """After kill -9 of the parent its server ends and its folder is removed."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "data").touch()
    with subprocess.Popen([sys.executable, "-c", PARENT, folder], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert exists(child)
        parent.kill()
    wait_until(lambda: not exists(child), timeout_seconds=5, description="end of the child")
    wait_until(lambda: not folder.exists(), timeout_seconds=5, description="removal of the folder")


def test_forgotten_groups_and_folders_are_spared(tmp_path: Path) -> None:
    """What was taken back is neither killed nor removed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as child:
        reap(
            [
                f"watch group {child.pid}\n",
                f"watch folder {tmp_path}\n",
                f"forget group {child.pid}\n",
                f"forget folder {tmp_path}\n",
            ]
        )
        assert child.poll() is None
        assert tmp_path.exists()
        child.kill()


def test_group_that_has_ended_already_is_no_error() -> None:
    """A process that ended by itself in the meantime is not missed."""
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as child:
        child.wait()
    reap([f"watch group {child.pid}\n"])
    assert not exists(child.pid)


def test_folder_name_may_hold_spaces(tmp_path: Path) -> None:
    """Only the first two words of a line are the command."""
    folder = tmp_path / "a b"
    folder.mkdir()
    reap([f"watch folder {folder}\n"])
    assert not folder.exists()


def test_reaper_survives_an_interrupt_of_the_terminal(reaper: Reaper) -> None:
    """Ctrl-C goes to the terminal's process group, and the reaper is not in it."""
    assert os.getpgid(reaper.pid) != os.getpgid(0)
    assert exists(reaper.pid)


def test_reaper_that_was_killed_is_noticed(tmp_path: Path) -> None:
    """Nothing is started that could not be cleaned up."""
    reaper = Reaper()
    os.kill(reaper.pid, signal.SIGKILL)
    wait_until(lambda: not exists(reaper.pid), timeout_seconds=5, description="end of the reaper")
    with pytest.raises(LocalClusterError, match="reaper process ended early with code -9"):
        reaper.watch_folder(tmp_path)
    reaper.close()
