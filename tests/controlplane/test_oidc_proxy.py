"""Users sign in at an OIDC provider, by the real oauth2-proxy as manifests/components/oidc-proxy runs it.

The provider is one of the tests'; its tokens are read by the real kube-apiserver. Nightly: oauth2-proxy is built first.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from localcluster.build import ensure_binaries
from localcluster.ports import LOOPBACK, free_ports
from localcluster.programs import Binary
from localcluster.waiting import wait_until
from tests.controlplane.oidcissuer import Issuer, oidc_issuer
from tests.controlplane.reaching import GANG, reachable_muster, role_binding
from tests.manifests.conftest import MANIFESTS

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly, pytest.mark.timeout(900)]

CLIENT = "muster"
TEAM = "vision"


@dataclass(frozen=True)
class Site:
    """The proxy at `url`, and the provider behind it."""

    url: str
    issuer: Issuer

    def browser(self, user: str, *groups: str) -> httpx.Client:
        """Return a browser in which somebody will sign in when it is asked to."""
        self.issuer.user, self.issuer.groups = user, groups
        trusted = ssl.create_default_context(cafile=self.issuer.certificate.certificate)
        return httpx.Client(base_url=self.url, follow_redirects=True, trust_env=False, verify=trusted)


def gangs(answer: httpx.Response) -> list[str]:
    """Return which gangs an answer lists."""
    assert answer.status_code == 200, answer.text
    return sorted(f"{row['namespace']}/{row['name']}" for row in answer.json()["gangs"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run provider, API server, a Muster that answers nobody without a token, and the proxy as the manifest has it."""
    place = tmp_path_factory.mktemp("oidc")
    (place / "settings.yaml").write_text(yaml.safe_dump({"anonymous_reads": False}), encoding="utf-8")
    (port,) = free_ports(1)
    proxy = ensure_binaries((Binary.OAUTH2_PROXY,))[Binary.OAUTH2_PROXY]
    with oidc_issuer(place, CLIENT) as issuer:
        server = [
            f"--oidc-issuer-url={issuer.url}",
            f"--oidc-ca-file={issuer.certificate.certificate}",
            f"--oidc-client-id={CLIENT}",
            "--oidc-username-claim=email",
            "--oidc-groups-claim=groups",
        ]
        arguments = ["--config", str(place / "settings.yaml")]
        control = tmp_path_factory.mktemp("control")
        with reachable_muster(control, arguments, "muster-scheduler", server) as reached:
            admin, gang = reached.running.admin, f"secret-of-{TEAM}"
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
            meta = {"namespace": TEAM, "name": f"{gang}-0", "labels": {"muster.dev/gang": gang}}
            admin.create(GANG | {"metadata": GANG["metadata"] | meta})
            members = {"kind": "User", "name": "ada@example.com"}
            admin.create(role_binding(TEAM, "ClusterRole", "muster:podgroup-viewer", members))
            url = f"http://{LOOPBACK}:{port}"
            ours = {
                "oidc-issuer-url": issuer.url,
                "redirect-url": f"{url}/oauth2/callback",
                "upstream": f"http://{LOOPBACK}:{reached.view_port}/",
                "http-address": f"{LOOPBACK}:{port}",
                "cookie-secure": "false",  # no TLS on loopback
                "provider-ca-file": str(issuer.certificate.certificate),
            }
            process = run_proxy(proxy, ours)
            try:
                wait_until(lambda: answers(f"{url}/ping"), timeout_seconds=30, description="the proxy answers")
                yield Site(url, issuer)
            finally:
                process.kill()
                process.wait()


def run_proxy(program: Path, ours: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run the proxy with the manifest's arguments, but for what is of another place here."""
    (deployment, *_) = yaml.safe_load_all((MANIFESTS / "components/oidc-proxy/proxy.yaml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    shipped = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
    assert shipped.keys() >= ours.keys() - {"provider-ca-file"}
    secrets = {"CLIENT_ID": CLIENT, "CLIENT_SECRET": "secret", "COOKIE_SECRET": "0123456789abcdef0123456789abcdef"}
    names = {each["name"] for each in container["env"]}
    assert names == {f"OAUTH2_PROXY_{name}" for name in secrets}
    command = [str(program), *(f"--{name}={value}" for name, value in (shipped | ours).items())]
    return subprocess.Popen(command, env={f"OAUTH2_PROXY_{name}": value for name, value in secrets.items()})


def answers(url: str) -> bool:
    """Tell whether something answers well."""
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_who_signs_in_sees_what_they_may_list(site: Site) -> None:
    """The browser is sent to the provider and back; what Muster shows is what RBAC says of the token's user."""
    with site.browser("ada@example.com") as browser:
        page = browser.get("/")
        assert (page.status_code, page.history[0].status_code) == (200, 302)
        assert "Muster" in page.text
        assert gangs(browser.get("/api/v1/gangs")) == [f"{TEAM}/secret-of-{TEAM}"]
    with site.browser("eve@example.com") as browser:
        browser.get("/")
        assert gangs(browser.get("/api/v1/gangs")) == []
        assert browser.get("/api/v1/nodes").status_code == 403


def test_who_has_not_signed_in_is_shown_nothing(site: Site) -> None:
    """A script is refused, and not sent to a page; headers that say who it is count for nothing."""
    for headers in ({}, {"X-Forwarded-User": "ada@example.com", "X-Forwarded-Email": "ada@example.com"}):
        answer = httpx.get(
            f"{site.url}/api/v1/gangs", headers={"Accept": "application/json", **headers}, trust_env=False
        )
        assert answer.status_code == 401
        assert "secret" not in answer.text


def test_a_script_shows_its_own_token(site: Site) -> None:
    """One that the provider signed for the same client; another's is refused."""
    site.issuer.user = "ada@example.com"
    shown = {"Authorization": f"Bearer {site.issuer.token()}"}
    assert gangs(httpx.get(f"{site.url}/api/v1/gangs", headers=shown, trust_env=False)) == [f"{TEAM}/secret-of-{TEAM}"]
    forged = {"Authorization": f"Bearer {site.issuer.token()[:-8]}AAAAAAAA", "Accept": "application/json"}
    assert httpx.get(f"{site.url}/api/v1/gangs", headers=forged, trust_env=False).status_code in {401, 403}
