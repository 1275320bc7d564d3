"""The Deployment as it stands in manifests/, and what its containers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from extender.cli.commands import app

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"

Manifest = dict[str, Any]


def load(name: str) -> list[Manifest]:
    """Return the documents of a file in manifests/."""
    return list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def pod_spec() -> Manifest:
    """Return the spec of the Deployment's pod."""
    (deployment,) = load("deployment.yaml")
    spec: Manifest = deployment["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="session")
def containers(pod_spec: Manifest) -> dict[str, Manifest]:
    """Return the containers by name."""
    return {container["name"]: container for container in pod_spec["containers"]}


@pytest.fixture(scope="session")
def options(containers: dict[str, Manifest]) -> dict[str, Any]:
    """Return the options of `muster serve` as the program itself reads the container's arguments."""
    verb, *arguments = containers["muster"]["args"]
    assert verb == "serve"
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return dict(group.commands[verb].make_context(verb, list(arguments)).params)
