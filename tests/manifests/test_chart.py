"""The Helm chart: the same objects as the kustomize base, values that do what they say, and refusals in plain words."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from extender.cli.pods import LABEL, LEASE
from extender.kube.version import OLDEST
from extender.settings import Settings
from tests.docs.conftest import ROOT, read_page
from tests.manifests.chart import (
    CHART,
    NAMESPACE,
    VERSION,
    Helm,
    comparable,
    container,
    findings,
    one,
    rendered,
    rendered_base,
    serve_options,
    settings_of,
)
from tests.manifests.chart_readme import README, values_table
from tests.manifests.chart_schema import DERIVED, SCHEMA, settings_schema
from tests.manifests.conftest import Manifest, load
from tests.manifests.links import broken_links
from tests.patience import HANGS

INSTALL = ROOT / "docs" / "install.md"

VERBS_ONLY = {"kubeScheduler": {"enabled": False}, "replicas": 1, "verbs": {"tls": {"secretName": "muster-tls"}}}

#: Files of the chart that are those of manifests/: links in a checkout, the files themselves in a package.
LINKED = [path.relative_to(CHART / "files") for path in sorted((CHART / "files").rglob("*")) if not path.is_dir()]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return Helm without a cluster."""
    return Helm.in_folder(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def default(helm: Helm) -> list[Manifest]:
    """Return what the chart renders without any value."""
    return helm.render()


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Return the schema of the values."""
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


def test_lint_finds_nothing(helm: Helm) -> None:
    """`helm lint --strict` has neither errors nor warnings."""
    done = helm.run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_default_values_render_the_kustomize_base(default: list[Manifest], tmp_path: Path) -> None:
    """Field by field, but for Helm's labels; the namespace is made by whoever installs."""
    base = comparable(rendered_base(folder=tmp_path))
    del base["Namespace", "", NAMESPACE]
    chart = comparable(default)
    assert chart.keys() == base.keys()
    assert {key: item for key, item in chart.items() if item != base[key]} == {}


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("view", {"view": {"enabled": True, "readService": False}}),
        ("view read-service", {"view": {"enabled": True}}),
        ("network-policy", {"networkPolicy": {"enabled": True}}),
    ],
)
def test_a_component_is_a_value_too(helm: Helm, tmp_path: Path, component: str, values: dict[str, Any]) -> None:
    """The base with components equals the chart with the values of them, but for ports that are not there."""
    base, chart = comparable(rendered_base(*component.split(), folder=tmp_path)), comparable(helm.render(values))
    del base["Namespace", "", NAMESPACE]
    for objects in (base, chart):
        for item in objects.values():
            if item["kind"] == "NetworkPolicy":
                rules = item["spec"]["ingress"]
                item["spec"]["ingress"] = [rule for rule in rules if rule["ports"] != [{"port": "view"}]]
    assert chart == base


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("autoscaling", {"settings": {"provisioning_class": "check-capacity.autoscaling.x-k8s.io"}}),
        ("onboarding", {"onboarding": {"enabled": True}}),
        ("flow-control", {"flowControl": {"enabled": True}}),
        ("access", {"access": {"queues": True, "priorities": True}}),
    ],
)
def test_what_a_component_adds_comes_with_a_value(
    helm: Helm, default: list[Manifest], tmp_path: Path, component: str, values: dict[str, Any]
) -> None:
    """The rights to ask for nodes with the setting that names a class, and the API server's policies."""
    base, with_component = (comparable(rendered_base(*each, folder=tmp_path)) for each in ((), (component,)))
    added = {key: item for key, item in with_component.items() if key not in base}
    chart = comparable(helm.render(values))
    assert {key for key in chart if key not in comparable(default) and key[0] != "ConfigMap"} == added.keys()
    for key, item in added.items():
        assert {name: part for name, part in chart[key].items() if name != "metadata"} == {
            name: part for name, part in item.items() if name != "metadata"
        }


def test_policies_know_the_schedulers_of_the_chart(helm: Helm) -> None:
    """Jobs go to the first of `schedulerNames`, and priorities are checked for all; older clusters are refused."""
    values: dict[str, Any] = {"onboarding": {"enabled": True}, "access": {"priorities": True}}
    text = yaml.safe_dump(helm.render(values | {"schedulerNames": ["gpu", "batch"]}), width=10_000)
    assert text.count("schedulerName: ''gpu''") + text.count("schedulerName: 'gpu'") == 2
    assert "[''gpu'', ''batch'']" in text or "['gpu', 'batch']" in text
    assert (
        "needs Kubernetes 1.36"
        in helm.run("template", "muster", str(CHART), "--kube-version=v1.35.4", "--set=onboarding.enabled=true").stderr
    )


def test_monitoring_is_that_of_the_manifests(helm: Helm, default: list[Manifest]) -> None:
    """Each toggle adds the object of manifests/monitoring, with the labels by which a site finds it."""
    values = {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "grafanaDashboard")}
    before, after = comparable(default), comparable(helm.render({"monitoring": values}))
    added = {key: item for key, item in after.items() if key not in before}
    for item in added.values():
        del item["metadata"]["labels"]["app.kubernetes.io/part-of"]
    assert added == comparable(rendered(ROOT / "manifests" / "monitoring"))
    labelled = {"podMonitor": {"enabled": True, "labels": {"release": "prom"}, "interval": "1m"}}
    monitors = [item for item in helm.render({"monitoring": labelled}) if item["kind"] == "PodMonitor"]
    assert [monitor["metadata"]["labels"]["release"] for monitor in monitors] == ["prom", "prom"]
    assert [each["interval"] for item in monitors for each in item["spec"]["podMetricsEndpoints"]] == ["1m", "1m"]


@pytest.mark.parametrize("linked", LINKED, ids=str)
def test_what_stands_in_the_manifests_is_linked(linked: Path) -> None:
    """There is one file of each, which the chart refers to by a relative link."""
    link = CHART / "files" / linked
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / "manifests" / linked


def test_a_package_holds_the_files_themselves(helm: Helm, default: list[Manifest], tmp_path: Path) -> None:
    """What `helm package` makes of a checkout needs nothing beside it, and renders the same objects."""
    done = helm.run("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("muster-*.tgz")
    with tarfile.open(package) as archive:
        held = {member.name: archive.extractfile(member) for member in archive if member.isreg()}
        for linked in LINKED:
            found = held[f"muster/files/{linked}"]
            assert found is not None
            assert found.read() == (ROOT / "manifests" / linked).read_bytes()
    assert len(LINKED) == sum(name.startswith("muster/files/") for name in held)
    done = helm.run(
        "template", "muster", str(package), "--namespace", NAMESPACE, "--kube-version", VERSION, "--skip-tests"
    )
    assert [item for item in yaml.safe_load_all(done.stdout) if item is not None] == default


def test_a_checkout_without_links_is_refused_in_words(helm: Helm, tmp_path: Path) -> None:
    """Where links became files that hold a path, nothing is installed in part."""
    chart = shutil.copytree(CHART, tmp_path / "muster", symlinks=True)
    (chart / "files" / "rbac.yaml").unlink()
    (chart / "files" / "rbac.yaml").write_text("../../../rbac.yaml")
    for other in (path for path in (chart / "files").rglob("*") if path.is_symlink()):
        original = ROOT / "manifests" / other.relative_to(chart / "files")
        other.unlink()
        shutil.copy(original, other)
    done = helm.run("template", "muster", str(chart))
    assert done.returncode != 0
    assert "files/rbac.yaml is no copy of a file of manifests/" in done.stderr


def test_versions_agree(default: list[Manifest]) -> None:
    """appVersion, the package's version and the tags of the kustomize base are the same."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (base,) = load("kustomization.yaml")
    tags = {image["name"]: image["newTag"] for image in base["images"]}
    assert str(chart["appVersion"]) == project["version"] == tags["muster"]
    assert container(default, "muster")["image"] == f"muster:{project['version']}"


def test_it_installs_on_every_version_that_muster_starts_on(helm: Helm) -> None:
    """Helm refuses only the clusters that Muster itself refuses, pre-releases and suffixes of providers included."""
    assert helm.render(version=f"v{OLDEST}.0-gke.1")
    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["kubeVersion"] == f">={OLDEST}.0-0"


@pytest.mark.parametrize("version", ["v1.36.2-eks-1a2b3c4", "v1.36.2+k3s1"])
def test_kube_scheduler_is_of_the_clusters_version(helm: Helm, version: str) -> None:
    """A provider's suffix is no part of the image's tag."""
    image = container(helm.render(version=version), "kube-scheduler")["image"]
    assert image == "registry.k8s.io/kube-scheduler:v1.36.2"


@pytest.mark.parametrize(
    ("values", "namespace"),
    [
        ({}, NAMESPACE),
        ({}, "gangs"),
        ({"schedulerNames": ["gangs", "batch"], "verbs": {"port": 20261}, "replicas": 1}, NAMESPACE),
        ({"settings": {"http_timeout_seconds": 45, "bind_hold_seconds": 30.5}}, NAMESPACE),
        ({"kubeScheduler": {"leaderElection": {"leaseSeconds": 15, "renewSeconds": 10}}}, NAMESPACE),
        ({"kubeScheduler": {"profile": {"plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}}}, NAMESPACE),
    ],
    ids=["default", "namespace", "names", "times", "lease", "profile"],
)
def test_both_containers_are_told_the_same(helm: Helm, values: dict[str, Any], namespace: str) -> None:
    """`muster check-config` finds nothing, whatever the values: arguments, settings and configuration agree."""
    objects = helm.render(values, namespace=namespace)
    assert findings(objects) == ()
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > settings_of(objects).bind_hold_seconds
    assert serve_options(objects)["scheduler_lease"] == f"{namespace}/muster"


def test_another_namespace_is_everywhere(helm: Helm) -> None:
    """No object refers to the namespace of the base, and the calibration is read where its Role allows it."""
    objects = helm.render(namespace="gangs")
    assert "muster-system" not in json.dumps(objects)
    assert settings_of(objects).calibration_config_map == "gangs/muster-calibration"


@pytest.mark.parametrize("override", [{"fullnameOverride": "gangs", "nameOverride": "x"}, {"nameOverride": "gangs"}])
def test_another_name_is_everywhere_but_where_muster_is_found(helm: Helm, override: dict[str, str]) -> None:
    """Objects and what refers to them have it, so nothing of a release collides; Lease and labels stay."""
    values: dict[str, Any] = {**override, "priorityClass": {"name": "gangs-critical"}}
    values["monitoring"] = {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "grafanaDashboard")}
    values["flowControl"] = {"enabled": True}
    objects = [item for item in helm.render(values) if item["kind"] != "CustomResourceDefinition"]
    names = [item["metadata"]["name"] for item in objects]
    assert [name for name in names if not name.startswith("gangs")] == []
    accounts = {item["metadata"]["name"] for item in objects if item["kind"] == "ServiceAccount"}
    roles = {item["metadata"]["name"] for item in objects if item["kind"] in {"Role", "ClusterRole"}}
    for binding in (item for item in objects if item["kind"].endswith("RoleBinding")):
        assert {subject["name"] for subject in binding["subjects"]} <= accounts
        role = binding["roleRef"]["name"]
        assert role in roles or role.startswith(("system:", "extension-apiserver"))
    schemas = [item for item in objects if item["kind"] == "FlowSchema"]
    subjects = [subject for item in schemas for rule in item["spec"]["rules"] for subject in rule["subjects"]]
    assert {subject["serviceAccount"]["name"] for subject in subjects} == accounts
    pod = one(objects, "Deployment")["spec"]["template"]
    assert pod["spec"]["serviceAccountName"] in accounts
    assert {each["configMap"]["name"] for each in pod["spec"]["volumes"]} <= set(names)
    assert pod["metadata"]["labels"] == one(objects, "Service")["spec"]["selector"] == dict([LABEL.split("=")])
    assert serve_options(objects)["scheduler_lease"] == f"{NAMESPACE}/{LEASE}"
    assert "deployment/gangs" in helm.notes({"fullnameOverride": "gangs"})
    assert "gangs.muster-system.svc" in json.dumps(helm.test_pod({"fullnameOverride": "gangs"}))


def test_a_service_monitor_scrapes_what_the_pod_monitor_does(helm: Helm) -> None:
    """The same endpoints, by ports that the Service has; the kube-scheduler's only where there is one."""
    monitoring = {name: {"enabled": True, "interval": "1m"} for name in ("podMonitor", "serviceMonitor")}
    objects = helm.render({"monitoring": monitoring})
    service = {port["name"]: port["targetPort"] for port in one(objects, "Service")["spec"]["ports"]}
    found = [item for item in objects if item["kind"] == "ServiceMonitor"]
    assert [item["metadata"]["name"] for item in found] == ["muster", "muster-kube-scheduler"]
    for monitor in found:
        (twin,) = (one([item], "PodMonitor") for item in objects if _is_twin(item, monitor))
        (endpoint,), (expected,) = monitor["spec"]["endpoints"], twin["spec"]["podMetricsEndpoints"]
        assert service[endpoint["port"]] == endpoint["port"]
        job = endpoint.pop("relabelings", [{"replacement": "muster"}])
        assert [each["replacement"] for each in job] == [monitor["metadata"]["name"]]
        assert endpoint == expected
        assert (
            monitor["spec"]["selector"]["matchLabels"].items() <= one(objects, "Service")["metadata"]["labels"].items()
        )
    objects = helm.render({**VERBS_ONLY, "monitoring": monitoring})
    assert [item["metadata"]["name"] for item in objects if item["kind"].endswith("Monitor")] == ["muster", "muster"]
    assert "https" not in {port["name"] for port in one(objects, "Service")["spec"]["ports"]}


@pytest.mark.parametrize("kind", ["podMonitor", "serviceMonitor"])
def test_metrics_of_the_kube_scheduler_may_ask_for_a_token(helm: Helm, kind: str) -> None:
    """The monitor then shows that of a Secret, and without one the chart says what to name."""
    values: dict[str, Any] = {"kubeScheduler": {"openMetrics": False}, "monitoring": {kind: {"enabled": True}}}
    assert "monitoring.kubeSchedulerToken.secretName" in helm.refusal(values)
    values["monitoring"]["kubeSchedulerToken"] = {"secretName": "prometheus"}
    objects = helm.render(values)
    shown = {
        item["metadata"]["name"]: [
            endpoint.get("authorization")
            for endpoint in item["spec"].get("endpoints") or item["spec"]["podMetricsEndpoints"]
        ]
        for item in objects
        if item["kind"].endswith("Monitor")
    }
    credentials = {"credentials": {"name": "prometheus", "key": "token"}}
    assert shown == {"muster": [None], "muster-kube-scheduler": [credentials]}
    deployment = json.dumps(one(objects, "Deployment"))
    assert '--authorization-always-allow-paths=/healthz,/readyz,/livez"' in deployment


def _is_twin(item: Manifest, monitor: Manifest) -> bool:
    return (item["kind"], item["metadata"]["name"]) == ("PodMonitor", str(monitor["metadata"]["name"]))


def test_runbooks_are_where_the_site_has_them(helm: Helm) -> None:
    """With an address every alert links to its section there; nothing else of the rules changes."""
    base = "https://example.com/muster/alerts/"
    rules = {"prometheusRule": {"enabled": True, "runbookUrlBase": base}}
    text = json.dumps(one(helm.render({"monitoring": rules}), "PrometheusRule"))
    del rules["prometheusRule"]["runbookUrlBase"]
    plain = json.dumps(one(helm.render({"monitoring": rules}), "PrometheusRule"))
    assert plain.count("docs/alerts.md#") == text.count(f'"{base}#') > 20
    assert text.replace(f"{base}#", "docs/alerts.md#") == plain


def test_a_test_of_the_release_is_placed_by_it(helm: Helm, default: list[Manifest]) -> None:
    """The pod is Muster's own to place, asks what the Service offers, and keeps to what the namespace enforces."""
    pod = helm.test_pod()
    annotations, spec = pod["metadata"]["annotations"], pod["spec"]
    assert annotations["helm.sh/hook"] == "test"
    assert spec["schedulerName"] == "muster"
    (asking,) = spec["containers"]
    assert asking["image"] == container(default, "muster")["image"]
    address = urlsplit(asking["command"][-1])
    assert (address.hostname, address.path) == (f"muster.{NAMESPACE}.svc", "/readyz")
    assert address.port in {port["port"] for port in one(default, "Service")["spec"]["ports"]}
    assert asking["securityContext"] == container(default, "muster")["securityContext"]
    assert spec["securityContext"] == one(default, "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert one(default, "Service")["spec"]["selector"].items() - pod["metadata"]["labels"].items()
    given = {"test": {"labels": {"muster.dev/queue": "infra"}}, "schedulerNames": ["gangs"]}
    pod = helm.test_pod(given)
    assert (pod["metadata"]["labels"]["muster.dev/queue"], pod["spec"]["schedulerName"]) == ("infra", "gangs")


@pytest.mark.parametrize(("status", "body"), [(200, "ok, leading\n"), (503, "pods not synced\n")])
def test_the_test_says_what_readyz_says(helm: Helm, status: int, body: str) -> None:
    """Its exit code is 0 where Muster is ready; else it ends with what is missing."""

    class Readyz(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

    with HTTPServer(("127.0.0.1", 0), Readyz) as server:
        Thread(target=server.handle_request).start()
        _, *command, _ = helm.test_pod()["spec"]["containers"][0]["command"]
        command = [sys.executable, *command, f"http://127.0.0.1:{server.server_port}/readyz"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == (0 if status == 200 else 1)
    assert body.strip() in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_settings_arrive_as_they_were_given(helm: Helm) -> None:
    """Numbers keep their type and value on the way through Helm, large ones too."""
    given: dict[str, Any] = {
        "body_limit_bytes": 67_108_864,
        "bodies_limit_bytes": 201_326_592,
        "veto_seconds": 0.25,
        "backfill": "conservative",
        "topology_levels": [{"name": "block", "nodeLabel": "example.com/block", "allreduceFactor": 0.5}],
    }
    assert settings_of(helm.render({"settings": given})) == Settings.model_validate(given)
    assert settings_of(helm.render({"dashboard": False})).dashboard is False


def test_a_change_of_the_settings_rolls_the_pods(helm: Helm) -> None:
    """The ConfigMap has another name then, and the pod template names it."""
    first, second = (helm.render({"settings": {"veto_seconds": seconds}}) for seconds in (10, 20))
    assert one(first, "Deployment")["spec"]["template"] != one(second, "Deployment")["spec"]["template"]


def test_verbs_for_a_kube_scheduler_elsewhere(helm: Helm) -> None:
    """Muster alone, over TLS to callers with a certificate, one at a time, without a kube-scheduler's rights."""
    values = VERBS_ONLY | {
        "schedulerNames": ["default-scheduler"],
        "verbs": {"tls": {"secretName": "s", "clientCaSecretName": "ca", "allowedClientNames": ["scheduler"]}},
    }
    objects = helm.render(values)
    options, deployment = serve_options(objects), one(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container(objects, "muster")["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert [each["name"] for each in pod["containers"]] == ["muster"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert (options["host"], options["scheduler_lease"]) == ("0.0.0.0", None)
    assert options["scheduler_name"] == ["default-scheduler"]
    assert options["allowed_client_name"] == ["scheduler"]
    for option, secret in (("tls_cert_file", "s"), ("tls_private_key_file", "s"), ("client_ca_file", "ca")):
        assert secrets[mounts[str(options[option].parent)]] == secret
    assert pod["serviceAccountName"] == "muster"
    assert "verbs" in {port["name"] for port in one(objects, "Service")["spec"]["ports"]}
    assert not [item for item in objects if item["kind"] == "PodDisruptionBudget"]


def test_the_view_has_no_verbs_and_is_apart(helm: Helm) -> None:
    """It listens on a port of its own, by the name that the command line looks for; the verbs stay on loopback."""
    objects = helm.render({"view": {"enabled": True, "port": 8080, "readService": False}})
    options = serve_options(objects)
    assert (options["view_host"], options["view_port"], options["host"]) == ("0.0.0.0", 8080, "127.0.0.1")
    ports = {port["name"]: port["containerPort"] for port in container(objects, "muster")["ports"]}
    assert ports["view"] == 8080
    assert {"name": "view", "port": 8080, "targetPort": "view"} in one(objects, "Service")["spec"]["ports"]


def test_readers_follow_the_leader_where_there_are_two(helm: Helm) -> None:
    """Slice, label, right and option have one name, whatever that is; with one replica there are none of them."""
    view = {"enabled": True, "port": 8080}
    objects = helm.render({"view": view, "fullnameOverride": "my-muster"}, namespace="gangs")
    named = {item["kind"]: item for item in objects if item["metadata"]["name"] == "my-muster-read"}
    assert named.keys() == {"Service", "EndpointSlice"}
    assert named["EndpointSlice"]["metadata"]["labels"]["kubernetes.io/service-name"] == "my-muster-read"
    assert named["EndpointSlice"]["ports"][0]["port"] == named["Service"]["spec"]["ports"][0]["targetPort"] == 8080
    (role,) = (item for item in objects if item["metadata"]["name"] == "my-muster:read-service" and "rules" in item)
    assert role["rules"][0]["resourceNames"] == ["my-muster-read"]
    assert serve_options(objects)["read_slice"] == "gangs/my-muster-read"
    alone = helm.render({"view": view, "replicas": 1})
    assert serve_options(alone)["read_slice"] is None
    assert "read" not in {item["metadata"]["name"].rpartition("-")[2] for item in alone}


def test_what_is_left_to_others_is_not_rendered(helm: Helm) -> None:
    """Each `create: false` leaves exactly its objects out."""
    off = {
        "crds": {"podGroups": False, "queues": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False},
        "priorityClass": {"create": False, "name": "system-cluster-critical"},
        "podDisruptionBudget": {"enabled": False},
    }
    objects = helm.render(off)
    assert sorted(item["kind"] for item in objects) == ["ConfigMap", "Deployment", "Service"]
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"


def test_crds_stay_unless_told_otherwise(helm: Helm, default: list[Manifest]) -> None:
    """`helm uninstall` deletes no PodGroup and no Queue by default."""
    for objects, kept in ((default, True), (helm.render({"crds": {"keep": False}}), False)):
        crds = [item for item in objects if item["kind"] == "CustomResourceDefinition"]
        assert len(crds) == 2
        for crd in crds:
            policy = crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
            assert (policy == "keep") is kept


def test_the_pod_takes_what_a_site_asks_for(helm: Helm) -> None:
    """Placement, labels, images, resources, environment and arguments end up where they belong."""
    digest = f"sha256:{'0' * 64}"
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    objects = helm.render(
        {
            "image": {"repository": "registry.example:5000/team/muster", "digest": digest, "pullPolicy": "Always"},
            "imagePullSecrets": [{"name": "regcred"}],
            "podAnnotations": {"example.com/a": "b"},
            "podLabels": {"team": "infra", "app.kubernetes.io/name": "mine"},
            "nodeSelector": {"pool": "system"},
            "tolerations": [],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": spread,
            "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1.5Gi"}},
            "extraArgs": ["--log-level=debug"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "serviceAccount": {"annotations": {"example.com/role": "r"}},
            "kubeScheduler": {"extraArgs": ["--v=4"], "image": {"tag": "v1.35.9"}},
        }
    )
    template = one(objects, "Deployment")["spec"]["template"]
    pod, muster = template["spec"], container(objects, "muster")
    assert template["metadata"]["labels"] == {"team": "infra", "app.kubernetes.io/name": "muster"}
    assert template["metadata"]["annotations"]["example.com/a"] == "b"
    assert (pod["nodeSelector"], pod.get("tolerations", [])) == ({"pool": "system"}, [])
    assert (pod["affinity"], pod["topologySpreadConstraints"]) == ({"nodeAffinity": {}}, spread)
    assert pod["imagePullSecrets"] == [{"name": "regcred"}]
    assert (muster["image"], muster["imagePullPolicy"]) == (f"registry.example:5000/team/muster@{digest}", "Always")
    assert muster["args"][-1] == "--log-level=debug"
    assert {"name": "TZ", "value": "UTC"} in muster["env"]
    assert muster["resources"]["requests"] == {"cpu": 2, "memory": "384Mi"}
    scheduler = container(objects, "kube-scheduler")
    assert (scheduler["command"][-1], scheduler["image"].rpartition(":")[2]) == ("--v=4", "v1.35.9")
    accounts = [item for item in objects if item["kind"] == "ServiceAccount"]
    assert [item["metadata"]["annotations"] for item in accounts] == [{"example.com/role": "r"}] * 2


def test_a_history_has_its_volume(helm: Helm, tmp_path: Path) -> None:
    """One value of the chart, or a component of the base, brings claim and setting; or the volume is one's own."""
    claim = {"persistentVolumeClaim": {"claimName": "muster-history"}}
    stored = {"history_store": "/var/lib/muster/history.db"}
    chart = helm.render({"replicas": 1, "history": {"enabled": True}})
    own = helm.render({"replicas": 1, "settings": stored, "history": {"volume": claim}})
    base = rendered_base("history", folder=tmp_path)
    for objects in (chart, own, base):
        pod = one(objects, "Deployment")["spec"]["template"]["spec"]
        assert {"name": "history", **claim} in pod["volumes"]
        assert {"name": "history", "mountPath": "/var/lib/muster"} in container(objects, "muster")["volumeMounts"]
        assert pod["securityContext"]["fsGroup"] == 65532
        assert one(objects, "Deployment")["spec"]["replicas"] == 1
        assert stored_settings(objects) == stored
    made, known = one(chart, "PersistentVolumeClaim"), one(base, "PersistentVolumeClaim")
    assert (made["metadata"]["name"], made["spec"]) == ("muster-history", known["spec"])
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not [item for item in own if item["kind"] == "PersistentVolumeClaim"]


def stored_settings(objects: list[Manifest]) -> dict[str, Any]:
    """Return the settings that the objects give Muster."""
    (settings,) = (item for item in objects if "settings.yaml" in item.get("data", {}))
    found: dict[str, Any] = yaml.safe_load(settings["data"]["settings.yaml"])
    return found


def test_two_replicas_have_a_history_in_postgresql(helm: Helm) -> None:
    """The setting is its URL, and there is neither claim nor volume."""
    url = "postgresql://muster@db.example.com/muster"
    objects = helm.render({"history": {"enabled": True, "postgresql": url}})
    assert stored_settings(objects) == {"history_store": url}
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    volumes = one(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert "history" not in {volume["name"] for volume in volumes}
    assert not [item for item in objects if item["kind"] == "PersistentVolumeClaim"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"history": {"enabled": True}}, "with 2 replicas needs history.postgresql"),
        (
            {"replicas": 1, "settings": {"history_store": "/x"}, "history": {"enabled": True}},
            "history.enabled sets settings.history_store",
        ),
        ({"history": {"postgresql": "postgresql://db/muster"}}, "set history.enabled: true"),
        ({"history": {"enabled": True, "postgresql": "mysql://db/muster"}}, "pattern"),
        (
            {"history": {"enabled": True, "postgresql": "postgresql://db/m", "volume": {"emptyDir": {}}}},
            "history.postgresql needs none",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_histories_that_cannot_be_are_refused(helm: Helm, values: dict[str, Any], said: str) -> None:
    """In words that say what to do."""
    assert said in helm.refusal(values)


def test_the_network_policy_names_ports_that_are_open(helm: Helm) -> None:
    """One rule for each kind of caller; none for what is not offered."""
    peers = [{"ipBlock": {"cidr": "10.0.0.0/28"}}]
    policy = {"enabled": True, "metricsFrom": peers, "viewFrom": peers, "verbsFrom": peers}
    for values, expected in (
        ({}, [["metrics", "https"]]),
        ({"view": {"enabled": True}}, [["metrics", "https"], ["view"]]),
        (VERBS_ONLY, [["metrics"], ["verbs"]]),
    ):
        objects = helm.render({**values, "networkPolicy": policy})
        rules = one(objects, "NetworkPolicy")["spec"]["ingress"]
        assert [[port["port"] for port in rule["ports"]] for rule in rules] == expected
        assert all(rule["from"] == peers for rule in rules)
        pod = one(objects, "Deployment")["spec"]["template"]["spec"]
        open_ports = {port["name"] for each in pod["containers"] for port in each["ports"]}
        assert {name for names in expected for name in names} <= open_ports


#: Wrong values, all at once, and how Helm names each.
WRONG: dict[str, Any] = {
    "replicas": 0,
    "replica": 2,
    "view": {"port": 99_999},
    "image": {"digest": "sha256:abc"},
    "schedulerNames": ["Not A Name"],
    "resources": {"requests": {"cpu": "lots"}},
    "settings": {
        "bind_hold_second": 1,
        "scheduler_names": ["x"],
        "veto_seconds": 0,
        "backfill": "fast",
        "topology_levels": [{"name": "rack"}],
    },
    "priorityClass": {"value": 2_000_000_000},
    "monitoring": {"podMonitor": {"interval": "soon"}, "prometheusRule": {"runbookUrlBase": "docs/alerts.md"}},
    "fullnameOverride": "Not A Name",
    "kubeScheduler": {"profile": {"schedulerName": "x", "percentageOfNodesToScore": 50}, "extraArgs": ["v=4"]},
    "extraArgs": ["serve"],
}
TOLD = (
    "at '/replicas'",
    "'replica' not allowed",
    "at '/view/port'",
    "at '/image/digest'",
    "at '/schedulerNames/0'",
    "at '/resources/requests/cpu'",
    "'bind_hold_second'",
    "'scheduler_names'",
    "at '/settings/veto_seconds'",
    "at '/settings/backfill'",
    "at '/settings/topology_levels/0'",
    "at '/priorityClass/value'",
    "at '/monitoring/podMonitor/interval'",
    "at '/monitoring/prometheusRule/runbookUrlBase'",
    "at '/fullnameOverride'",
    "at '/kubeScheduler/profile/schedulerName'",
    "at '/kubeScheduler/profile/percentageOfNodesToScore'",
    "at '/kubeScheduler/extraArgs/0'",
    "at '/extraArgs/0'",
)


def test_every_wrong_value_is_refused_with_its_path(helm: Helm) -> None:
    """The schema says which values are wrong, all of them, before anything is rendered."""
    refusal = helm.refusal(WRONG)
    assert [told for told in TOLD if told not in refusal] == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"settings": {"bind_hold_seconds": 30}}, "bind_hold_seconds (30) must be below"),
        ({"schedulerNames": ["default-scheduler"]}, "default-scheduler is the cluster's own"),
        ({"kubeScheduler": {"enabled": False}, "replicas": 1}, "verbs.tls.secretName is needed"),
        (VERBS_ONLY | {"replicas": 2}, "replicas must be 1"),
        ({"view": {"enabled": True, "port": 10262}}, "must differ"),
        ({"kubeScheduler": {"leaderElection": {"renewSeconds": 5}}}, "renewSeconds must be below leaseSeconds"),
    ],
    ids=["hold", "default-scheduler", "tls", "replicas", "ports", "lease"],
)
def test_values_that_contradict_each_other_are_refused_in_words(helm: Helm, values: dict[str, Any], told: str) -> None:
    """What a schema cannot say, the chart does: which values, and what to do."""
    assert told in helm.refusal(values)


def test_the_schema_knows_the_programs_settings(schema: dict[str, Any]) -> None:
    """Settings that came, went or changed are in the schema: `python -m tests.manifests.chart_schema` writes it."""
    settings, definitions = settings_schema()
    assert set(DERIVED) <= set(Settings.model_fields)
    assert (schema["properties"]["settings"], schema["$defs"]) == (settings, definitions)


def test_the_schema_has_every_value_and_nothing_else(schema: dict[str, Any]) -> None:
    """What stands in values.yaml is known, what is known stands there, and nothing beside it is let through."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(_known(schema)) - {"global"} == set(_given(values, schema))


def _known(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of every value that the schema knows, to where sites fill in what they like."""
    for name, part in schema["properties"].items():
        here = f"{path}{name}"
        if part.get("additionalProperties") is False and here not in {"settings", "affinity", "kubeScheduler.profile"}:
            yield from _known(part, f"{here}.")
        else:
            yield here


def _given(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of every value in values.yaml, to where sites fill in what they like."""
    leaves = set(_known(schema, path))
    for name, value in values.items():
        here = f"{path}{name}"
        if here in leaves or not isinstance(value, dict):
            yield here
        else:
            yield from _given(value, schema["properties"][name], f"{here}.")


def test_the_readme_lists_every_value() -> None:
    """Name, default and meaning, as they stand in values.yaml: `python -m tests.manifests.chart_readme` writes them."""
    assert values_table() in README.read_text(encoding="utf-8")
    assert broken_links(README) == []


def test_the_values_on_the_page_are_accepted(helm: Helm) -> None:
    """Whoever copies values from docs/install.md gets what the page says, with a configuration that is sound."""
    blocks = [block.documents() for block in read_page(INSTALL).blocks if block.language == "yaml"]
    shown, elsewhere = (values for (values,) in blocks if "apiVersion" not in values)
    objects = helm.render(_pushed(shown))
    assert findings(objects) == ()
    assert settings_of(objects).reservation_timeout_seconds == 120
    assert {"PodMonitor", "PrometheusRule"} <= {item["kind"] for item in objects}
    assert serve_options(helm.render(elsewhere))["scheduler_name"] == elsewhere["schedulerNames"]


def test_the_overlay_on_the_page_renders(tmp_path: Path) -> None:
    """The one in docs/install.md has the images that it names, and what its components add."""
    (overlay,) = (block for block in read_page(INSTALL).blocks if "# overlay/kustomization.yaml" in block.text)
    (kustomization,) = overlay.documents()
    (tmp_path / "muster").symlink_to(ROOT)
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(_pushed(kustomization)), encoding="utf-8")
    objects = rendered(tmp_path / "overlay")
    images = {name: container(objects, name)["image"] for name in ("muster", "kube-scheduler")}
    assert images == {
        "muster": "registry.example/muster:0.1.0",
        "kube-scheduler": "registry.k8s.io/kube-scheduler:v1.36.2",
    }
    assert serve_options(objects)["view_port"] == 10263
    assert one(objects, "NetworkPolicy")["metadata"]["namespace"] == NAMESPACE


def _pushed(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what a page shows with a registry in place of the word for one."""
    filled: dict[str, Any] = json.loads(json.dumps(shown).replace("REGISTRY/", "registry.example/"))
    return filled


def test_the_notes_say_what_comes_next(helm: Helm) -> None:
    """How to wait and to look; and what is missing where an image was not named, or a kube-scheduler not told."""
    plain = helm.notes({})
    assert "rollout status deployment/muster" in plain
    assert "set image.repository" in plain
    assert "schedulerName: muster" in plain
    elsewhere = helm.notes({"image": {"repository": "r/m"}, "view": {"enabled": True}}, namespace="gangs")
    assert "set image.repository" not in elsewhere
    assert "muster status --muster-namespace gangs" in elsewhere
    assert "port-forward pod/$LEADER 10263" in elsewhere
    assert f"urlPrefix: https://muster.{NAMESPACE}.svc:10261/v1" in helm.notes(VERBS_ONLY)
