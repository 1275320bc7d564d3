"""The Helm chart as tests see it: rendered with values, refused, linted, and what the program makes of the result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
import yaml

from extender.cli.commands import app
from extender.settings import Settings
from localcluster.build import built_binaries
from localcluster.manifests import render as kustomize
from localcluster.programs import Binary
from muster_lab.tools.schedulerconfig.check import check_text
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding
from tests.docs.conftest import ROOT
from tests.manifests.conftest import Manifest
from tests.patience import HANGS

CHART = ROOT / "manifests" / "helm" / "muster"

#: The release and the cluster in tests; the base's kube-scheduler is of that version.
NAMESPACE, VERSION = "muster-system", "v1.37.0"

#: What Helm adds to every object, and what the chart adds to CRDs for it.
_HELMS = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"})
_KEEP = "helm.sh/resource-policy"
#: Names of ConfigMaps end in a hash of their content, and each tool has a hash of its own.
_HASHED = re.compile(r"\b(muster-scheduler-config|muster-settings)-[a-z0-9]{10}\b")

#: (kind, namespace, name)
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm, with folders of its own and without a cluster."""

    executable: Path
    folder: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Helm:
        """Return the Helm that was built; raise LocalClusterError with the command that builds it."""
        return cls(built_binaries((Binary.HELM,))[Binary.HELM], folder)

    def render(
        self, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE, version: str = VERSION
    ) -> list[Manifest]:
        """Return the chart's objects for these values, tests left out; fail with Helm's words where it refuses them."""
        done = self._template(values or {}, namespace, version, "--skip-tests")
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.load_all(done.stdout, yaml.CSafeLoader) if item is not None]

    def test_pod(self, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE) -> Manifest:
        """Return the pod that `helm test` starts."""
        done = self._template(values or {}, namespace, VERSION, "--show-only=templates/tests/test.yaml")
        assert done.returncode == 0, done.stderr
        pod: Manifest = yaml.safe_load(done.stdout)
        return pod

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Return why Helm refuses these values; fail if it does not."""
        done = self._template(values, NAMESPACE, VERSION)
        assert done.returncode != 0, "not refused"
        return done.stderr

    def notes(self, values: Mapping[str, Any], namespace: str = NAMESPACE) -> str:
        """Return what people read after an installation."""
        done = self.run("install", "muster", str(CHART), "--dry-run=client", *self._options(values, namespace))
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\nNOTES:\n", 1)[1]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Helm, which knows no cluster."""
        folders = {f"HELM_{name}_HOME": str(self.folder / name) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **folders, "KUBECONFIG": os.devnull}
        command = [str(self.executable), *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS, env=environment)

    def _template(
        self, values: Mapping[str, Any], namespace: str, version: str, *more: str
    ) -> subprocess.CompletedProcess[str]:
        options = [*self._options(values, namespace), *more]
        return self.run("template", "muster", str(CHART), f"--kube-version={version}", *options)

    def _options(self, values: Mapping[str, Any], namespace: str) -> list[str]:
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".yaml", delete=False, encoding="utf-8") as file:
            yaml.safe_dump(dict(values), file)
        return [f"--namespace={namespace}", f"--values={file.name}"]


def rendered(directory: Path) -> list[Manifest]:
    """Return the objects of a kustomization, as kubectl renders them."""
    return kustomize(built_binaries((Binary.KUBECTL,))[Binary.KUBECTL], directory)


def rendered_base(*components: str, folder: Path) -> list[Manifest]:
    """Return the objects of the kustomize base with these components."""
    overlay = folder / "-".join(("overlay", *components))
    overlay.mkdir(exist_ok=True)
    base = os.path.relpath(ROOT / "manifests", overlay.resolve())
    kustomization = {"resources": [base], "components": [f"{base}/components/{name}" for name in components]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return rendered(overlay)


def comparable(objects: list[Manifest]) -> dict[Key, Manifest]:
    """Return objects by what they are called, without what depends on the tool that rendered them."""
    found: dict[Key, Manifest] = {}
    for item in json.loads(_HASHED.sub(r"\1", json.dumps(objects))):
        meta = item["metadata"]
        meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if key not in _HELMS}
        meta["annotations"] = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _KEEP}
        found[item["kind"], meta.get("namespace", ""), meta["name"]] = item
    return found


def one(objects: list[Manifest], kind: str, name: str = "") -> Manifest:
    """Return the only object of a kind whose name begins so."""
    (found,) = (item for item in objects if item["kind"] == kind and item["metadata"]["name"].startswith(name))
    return found


def container(objects: list[Manifest], name: str) -> Manifest:
    """Return a container of the Deployment."""
    containers = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    (found,) = (each for each in containers if each["name"] == name)
    result: Manifest = found
    return result


def serve_options(objects: list[Manifest]) -> dict[str, Any]:
    """Return the options of `muster serve` as the program itself reads the container's arguments."""
    verb, *arguments = container(objects, "muster")["args"]
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return dict(group.commands[verb].make_context(verb, list(arguments)).params)


def settings_of(objects: list[Manifest]) -> Settings:
    """Return the settings that the program reads from the mounted file, defaults where none is."""
    if serve_options(objects)["config"] is None:
        return Settings()
    return Settings.model_validate(
        yaml.safe_load(one(objects, "ConfigMap", "muster-settings")["data"]["settings.yaml"])
    )


def findings(objects: list[Manifest]) -> tuple[Finding, ...]:
    """Return what `muster check-config` has to say about the kube-scheduler beside Muster."""
    options, settings = serve_options(objects), settings_of(objects)
    expected = Expectations(
        scheduler_names=tuple(options["scheduler_name"] or settings.scheduler_names),
        bind_hold_seconds=settings.bind_hold_seconds,
        http_timeout_seconds=settings.http_timeout_seconds,
        reservation_timeout_seconds=settings.reservation_timeout_seconds,
        port=options["port"],
        lease=options["scheduler_lease"],
        replicas=one(objects, "Deployment")["spec"]["replicas"],
    )
    text = one(objects, "ConfigMap", "muster-scheduler-config")["data"]["muster.yaml"]
    (checked,) = check_text(text, expected)
    return checked.findings
