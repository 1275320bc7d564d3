"""The image's tree, made by the Dockerfile's own commands, and Muster run in it as the image runs it."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import free_port, wait_for
from tests.image.dockerfile import ROOT, read
from tests.patience import HANGS

#: The absolute paths that the Dockerfile writes to, and where the base image has its Python.
_FOLDERS = ("/opt/", "/src", "/wheels")
_BASE = "usr/local"

#: Prints which modules that Muster may load to serve have no bytecode.
_WITHOUT_BYTECODE = """
import extender, importlib, pathlib, pkgutil, sys
for module in pkgutil.walk_packages(extender.__path__, "extender."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print([name for name, module in sorted(sys.modules.items()) if (cached := getattr(module, "__cached__", None))
       if "site-packages" in cached and not pathlib.Path(cached).exists()])
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a folder that any user may enter, to stand for `/`; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="muster-image-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", str(folder / "opt")], check=True)
    shutil.rmtree(folder)


def within(root: Path, text: str) -> str:
    """Move the absolute paths of a command or a variable into `root`."""
    for folder in _FOLDERS:
        text = text.replace(folder, f"{root}{folder}")
    return text


def put_base(root: Path) -> Path:
    """Put this Python, without its packages, where the base image has its own; return its executable.

    The one in use may lie in a home directory that other users cannot enter.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, target = Path(sys.base_prefix), root / _BASE
    unneeded = shutil.ignore_patterns("site-packages", "dist-packages", "test", "idlelib", "tkinter", "config-*")
    shutil.copytree(base / "lib" / version, target / "lib" / version, ignore=unneeded, copy_function=_link)
    for library in (base / "lib").glob("libpython*.so*"):
        _link(library, target / "lib" / library.name)
    (target / "bin").mkdir()
    return Path(_link(base / "bin" / version, target / "bin" / version))


def _link(source: str | Path, target: str | Path) -> str | Path:
    """Put a file at a second place; copy it where the file system allows no second name."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def build(root: Path) -> None:
    """Do what the Dockerfile's first stage does: copy, then run, in its order."""
    stage, python = read()[0], put_base(root)
    source = root / "src"
    source.mkdir()
    (root / "opt").mkdir()
    environment = {**os.environ, **stage.environment}
    # The base image's Python has pip; here only the environment that runs the tests surely has.
    programs = {"python -m pip": f"{sys.executable} -m pip", "python -m": f"{python} -m"}
    for one in stage.instructions:
        if one.keyword == "COPY":
            *names, target = one.words
            for name in names:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / (name if target == "./" else target))
        if one.keyword == "RUN":
            command = re.sub(r"(?<![/\w])python -m( pip)?", lambda found: programs[found[0]], within(root, one.text))
            subprocess.run(["/bin/sh", "-ec", command], cwd=source, env=environment, check=True, stdout=subprocess.PIPE)
    shutil.rmtree(source)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of everything in a folder."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


def restrict() -> None:
    """Forbid this process to write to any file: a write would fail as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def serve(root: Path, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a program of the tree as the image's user, where this process may choose one."""
    user, group = (int(number) for number in read()[-1].all("USER")[0].text.split(":"))
    chosen = os.geteuid() == 0
    return subprocess.Popen(
        arguments,
        cwd=root,
        env=environment,
        stderr=subprocess.PIPE,
        preexec_fn=restrict,  # noqa: PLW1509 - it takes no lock
        user=user if chosen else None,
        group=group if chosen else None,
        extra_groups=() if chosen else None,
    )


def test_muster_runs_as_nobody_in_a_tree_that_it_cannot_write_to(root: Path) -> None:
    """Built by the Dockerfile's commands, it serves as its numeric user, with no home, and writes no file at all."""
    build(root)
    tree = root / "opt" / "muster"
    assert not list(tree.glob("bin/pip*"))
    assert not list(tree.glob("lib/*/site-packages/hatchling"))
    python = str(tree / "bin" / "python")
    checked = subprocess.run([python, "-c", _WITHOUT_BYTECODE], check=True, capture_output=True, text=True)
    assert checked.stdout == "[]\n"

    kubeconfig = root / "opt" / "kubeconfig"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(root / "opt")], check=True)
    before = listing(root)

    given = {name: within(root, value) for name, value in read()[-1].environment.items()}
    environment = {
        **given,
        "PATH": f"{tree}/bin",
        "HOME": "/nonexistent",
        "KUBECONFIG": str(kubeconfig),
        # Where the base image's linker looks by itself.
        "LD_LIBRARY_PATH": str(root / _BASE / "lib"),
    }
    port = free_port()
    with serve(root, [str(tree / "bin" / "muster"), "serve", f"--port={port}"], environment) as process:
        try:
            assert wait_for(f"http://127.0.0.1:{port}/healthz").text == "ok\n"
            ready = wait_for(f"http://127.0.0.1:{port}/readyz")
            assert (ready.status_code, " not synced" in ready.text) == (503, True)
            assert Path(f"/proc/{process.pid}").stat().st_uid != 0
        finally:
            process.terminate()
            sys.stderr.write(process.communicate(timeout=HANGS)[1].decode())  # shown if the test fails
    assert process.returncode == 0
    assert listing(root) == before
