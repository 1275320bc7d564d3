"""The OIDC proxy: it leads to the Service for readers, shows Muster the ID token, and keeps its secrets in a Secret."""

from __future__ import annotations

from pathlib import Path

from tests.manifests.chart import rendered_base
from tests.manifests.conftest import load

PROXY = "components/oidc-proxy/proxy.yaml"


def test_it_leads_to_the_service_for_readers() -> None:
    """By its name and its port; no user name goes beside the token."""
    (read_service, _), (deployment, service, ingress) = load("components/read-service/service.yaml"), load(PROXY)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
    meta, (port,) = read_service["metadata"], read_service["spec"]["ports"]
    assert options["upstream"] == f"http://{meta['name']}.{meta['namespace']}.svc:{port['port']}/"
    assert options["pass-authorization-header"] == options["skip-jwt-bearer-tokens"] == "true"
    assert options["pass-user-headers"] == options["pass-basic-auth"] == "false"
    assert not [each for each in options if "secret" in each]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    (rule,) = ingress["spec"]["rules"]
    assert options["redirect-url"] == f"https://{rule['host']}/oauth2/callback"


def test_it_is_a_component(tmp_path: Path) -> None:
    """In an overlay it stands beside the view and the Service, and Muster itself is as it was."""
    before = rendered_base("view", "read-service", folder=tmp_path)
    after = rendered_base("view", "read-service", "oidc-proxy", folder=tmp_path)
    assert [each for each in after if each["metadata"]["name"] != "muster-oidc-proxy"] == before
    assert sorted(each["kind"] for each in after if each not in before) == ["Deployment", "Ingress", "Service"]
