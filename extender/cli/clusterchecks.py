"""What of a cluster matters to Muster, and what is made of it: findings, each with the commands that mend it.

Everything is read with the caller's own rights, and nothing is written: an access review is only answered.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from extender.cli.pods import Json
from extender.cli.targets import ClusterObjects, ForbiddenError
from extender.hardware.products import ACCELERATOR_LABEL, PRODUCT_LABELS, Products
from extender.kube.rights import Access
from extender.kube.version import NEWEST_TESTED, OLDEST, OLDEST_TESTED, Minor
from extender.objects.levelobjects import AUTO, LEVEL_GROUPS, choose_levels
from extender.objects.requests import GPU_RESOURCES

_RBAC: Final = "rbac.authorization.k8s.io"
_HYPER_NODES: Final = "topology.volcano.sh"
#: API group -> the scheduler or queue that it is a sign of.
_OTHERS: Final = {
    "scheduling.volcano.sh": "Volcano",
    "kueue.x-k8s.io": "Kueue",
    "scheduling.run.ai": "KAI",
    "scheduling.koordinator.sh": "Koordinator",
    "grove.io": "Grove",
}
_DEVICE_PLUGIN: Final = (
    "helm repo add nvdp https://nvidia.github.io/k8s-device-plugin",
    (
        "helm upgrade --install nvdp nvdp/nvidia-device-plugin --namespace nvidia-device-plugin --create-namespace"
        " --set gfd.enabled=true"
    ),
)
_PAGE: Final = 500


class CheckState(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    NOTE = "note"
    """Muster works; a reader may want to know."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """The caller may not read it."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What was found about one thing, and the commands that give what is missing, in their order."""

    check: str
    state: CheckState
    message: str
    apply: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterChecks:
    """The questions about a cluster; Muster is, or is to be, in `namespace`."""

    cluster: ClusterObjects
    namespace: str

    def run(self) -> list[CheckFinding]:
        """Return all findings, what is needed first in front; raise AskError if the API server does not answer."""
        version = str((self.cluster.get("/version") or {}).get("gitVersion") or "")
        groups = self._groups()
        deployment = self._find(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/muster")
        installed = isinstance(deployment, Mapping) and bool(deployment.get("spec"))
        found = [version_finding(version), self._rights(installed=installed)]
        if isinstance(deployment, ForbiddenError):
            found.append(CheckFinding("Muster", CheckState.UNKNOWN, str(deployment)))
        found += self._crds(installed=installed or isinstance(deployment, ForbiddenError))
        found += self._muster(deployment if installed else None, version)
        found += self._nodes(groups)
        found += self._devices(groups)
        found += self._around(groups)
        return found

    def _groups(self) -> frozenset[str]:
        """Return the API groups that are served; every authenticated user may ask."""
        return frozenset(str(each.get("name")) for each in self.cluster.get("/apis").get("groups") or ())

    def _find(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return an object, None if there is none, and a ForbiddenError if it may not be read."""
        try:
            return self.cluster.find(path)
        except ForbiddenError as error:
            return error

    def _rights(self, *, installed: bool) -> CheckFinding:
        """Say which rights the caller lacks to install or upgrade Muster."""
        cannot = [f"{each.verb} {each.resource}" for each in _installing(self.namespace) if not self._may(each)]
        if not cannot:
            escalate = Access("escalate", _RBAC, "clusterroles")
            if self._may(escalate):
                return CheckFinding("rights", CheckState.OK, "you may create all that Muster consists of")
            return CheckFinding(
                "rights",
                CheckState.NOTE,
                "you may create all that Muster consists of, and in its roles grant only what you may do yourself",
            )
        state = CheckState.NOTE if installed else CheckState.MISSING
        what = "upgrade" if installed else "install"
        return CheckFinding(
            "rights", state, f"you may not {', '.join(cannot)}: a cluster administrator has to {what} it"
        )

    def _may(self, access: Access) -> bool:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **access.review()}
        answer = self.cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool((answer.get("status") or {}).get("allowed"))

    def _crds(self, *, installed: bool) -> Iterator[CheckFinding]:
        """Say which of the two kinds that Muster brings are served, and yield what installs Muster if it is not."""
        served = {
            kind: self._serves(f"/apis/{group}/v1alpha1", kind)
            for group, kind in (("scheduling.x-k8s.io", "PodGroup"), ("muster.dev", "Queue"))
        }
        absent = [kind for kind, there in served.items() if not there]
        if not absent:
            yield CheckFinding(
                "CRDs", CheckState.OK, "PodGroup (scheduling.x-k8s.io) and Queue (muster.dev) are served"
            )
        else:
            files = [f"kubectl apply --server-side -f manifests/{kind.lower()}-crd.yaml" for kind in absent]
            message = f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not served"
            told = message if installed else f"{message}; Helm brings what is missing with the rest"
            yield CheckFinding("CRDs", CheckState.MISSING, told, tuple(files) if installed else ())
        if installed:
            return
        space = self._find(f"/api/v1/namespaces/{self.namespace}")
        commands = (
            f"kubectl create namespace {self.namespace}",
            f"kubectl label namespace {self.namespace} pod-security.kubernetes.io/enforce=restricted",
        )
        option = " --set crds.podGroups=false" if served["PodGroup"] else ""
        install = (
            (
                f"helm install muster manifests/helm/muster --namespace {self.namespace}"
                f" --set image.repository=REGISTRY/muster{option}"
            ),
            f"kubectl -n {self.namespace} rollout status deployment/muster",
        )
        kept = "; the PodGroup that is served stays as it is" if served["PodGroup"] else ""
        message = f"no Deployment muster in namespace {self.namespace}{kept}"
        there = isinstance(space, Mapping) and bool(space.get("metadata"))
        yield CheckFinding("Muster", CheckState.MISSING, message, (() if there else commands) + install)

    def _serves(self, path: str, kind: str) -> bool:
        answer = self._find(path)
        resources = answer.get("resources") or () if isinstance(answer, Mapping) else ()
        return any(each.get("kind") == kind for each in resources)

    def _muster(self, deployment: Json | None, version: str) -> Iterator[CheckFinding]:
        """Say how Muster and the kube-scheduler beside it are, and the cluster's own kube-scheduler."""
        if deployment is not None:
            status, wanted = deployment.get("status") or {}, (deployment.get("spec") or {}).get("replicas", 1)
            ready = status.get("readyReplicas") or 0
            message = f"{ready} of {wanted} replicas are ready in namespace {self.namespace}"
            why = f"kubectl -n {self.namespace} describe pods -l app.kubernetes.io/name=muster"
            state = CheckState.OK if ready >= wanted else CheckState.NOTE if ready else CheckState.MISSING
            yield CheckFinding("Muster", state, message, () if ready >= wanted else (why,))
            yield scheduler_finding(deployment, version)
            yield self._profile(deployment)
        lease = self._find("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
        holder = (lease.get("spec") or {}).get("holderIdentity") if isinstance(lease, Mapping) else None
        if isinstance(lease, ForbiddenError):
            yield CheckFinding("kube-scheduler", CheckState.UNKNOWN, str(lease))
        elif holder:
            yield CheckFinding(
                "kube-scheduler", CheckState.OK, f"the cluster's own leads as {holder}; it stays as it is"
            )
        else:
            message = "the cluster's own holds no Lease kube-system/kube-scheduler; pods that are not Muster's are its"
            yield CheckFinding("kube-scheduler", CheckState.NOTE, message)

    def _profile(self, deployment: Json) -> CheckFinding:
        """Say which profiles Muster's kube-scheduler has, and whether it asks an extender."""
        volumes = _pod_spec(deployment).get("volumes") or ()
        names = [str(each["configMap"].get("name")) for each in volumes if each.get("configMap")]
        texts: list[str] = []
        for name in (each for each in names if "scheduler" in each):
            body = self._find(f"/api/v1/namespaces/{self.namespace}/configmaps/{quote(name)}")
            if isinstance(body, ForbiddenError):
                return CheckFinding("profile", CheckState.UNKNOWN, str(body))
            texts += ((body or {}).get("data") or {}).values()
            check = f"kubectl -n {self.namespace} get configmap {name} -o yaml | muster check-config -"
            if texts:
                return profile_finding(texts, check)
        return CheckFinding("profile", CheckState.NOTE, "the Deployment mounts no configuration of a kube-scheduler")

    def _nodes(self, groups: frozenset[str]) -> Iterator[CheckFinding]:
        """Say which GPUs the nodes have, and which levels of the network their labels name."""
        try:
            nodes = list(self._pages("/api/v1/nodes"))
        except ForbiddenError as error:
            yield CheckFinding("GPUs", CheckState.UNKNOWN, str(error))
            return
        yield gpus_finding(nodes)
        yield topology_finding(nodes, groups)

    def _pages(self, path: str) -> Iterator[Json]:
        """Yield the objects of a list, some hundred in a request."""
        more = ""
        while True:
            page = self.cluster.find(f"{path}?limit={_PAGE}{more}") or {}
            yield from page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            more = f"&continue={quote(str(token))}"

    def _devices(self, groups: frozenset[str]) -> Iterator[CheckFinding]:
        """Say whether devices are told of by DRA, and zones by NodeResourceTopologies."""
        if "resource.k8s.io" not in groups or not self._serves("/apis/resource.k8s.io/v1", "ResourceSlice"):
            message = (
                "resource.k8s.io/v1 is not served (it is from Kubernetes 1.34 on); GPUs come by device plugins alone"
            )
            yield CheckFinding("DRA", CheckState.NOTE, message)
        else:
            yield self._dra()
        path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
        told = self._find(f"{path}?limit={_PAGE}") if "topology.node.k8s.io" in groups else None
        if isinstance(told, ForbiddenError):
            yield CheckFinding("NUMA", CheckState.UNKNOWN, str(told))
        elif told and told.get("items"):
            yield CheckFinding("NUMA", CheckState.OK, "NodeResourceTopologies tell of the nodes' zones")
        else:
            message = "no NodeResourceTopologies; needed only where kubelets refuse pods by their topology manager"
            yield CheckFinding("NUMA", CheckState.NOTE, message)

    def _dra(self) -> CheckFinding:
        try:
            slices = list(self._pages("/apis/resource.k8s.io/v1/resourceslices"))
        except ForbiddenError as error:
            return CheckFinding("DRA", CheckState.UNKNOWN, str(error))
        drivers = sorted({str((each.get("spec") or {}).get("driver")) for each in slices})
        said = (
            f"drivers: {', '.join(drivers)}"
            if drivers
            else "no driver offers devices; GPUs come by device plugins alone"
        )
        return CheckFinding("DRA", CheckState.OK if drivers else CheckState.NOTE, said)

    def _around(self, groups: frozenset[str]) -> Iterator[CheckFinding]:
        """Say what else is installed that matters."""
        there = "cert-manager.io" in groups
        message = "installed" if there else "not installed; Muster needs none, its verbs are on loopback"
        yield CheckFinding("cert-manager", CheckState.OK, message)
        others = [name for group, name in _OTHERS.items() if group in groups]
        message = f"{', '.join(others)}: pods go to one scheduler alone, to Muster those with schedulerName: muster"
        state = CheckState.NOTE if others else CheckState.OK
        yield CheckFinding("other schedulers", state, message if others else "no other gang scheduler is installed")


def version_finding(version: str) -> CheckFinding:
    """Judge the version of the API server, such as `v1.37.0`, by docs/versions.md."""
    try:
        minor = Minor.parse(version)
    except ValueError:
        return CheckFinding("Kubernetes", CheckState.UNKNOWN, f"the API server says {version!r}, which is no version")
    if minor < OLDEST:
        return CheckFinding("Kubernetes", CheckState.MISSING, f"{version} is too old: Muster needs {OLDEST} or newer")
    if OLDEST_TESTED <= minor <= NEWEST_TESTED:
        return CheckFinding("Kubernetes", CheckState.OK, f"{version}, tested")
    message = f"{version}: Muster is tested with {OLDEST_TESTED} to {NEWEST_TESTED}, and warns at start"
    return CheckFinding("Kubernetes", CheckState.NOTE, message)


def scheduler_finding(deployment: Json, version: str) -> CheckFinding:
    """Judge the version of the kube-scheduler beside Muster: the API server's minor version, or one below."""
    images = [str(one.get("image", "")) for one in _pod_spec(deployment).get("containers") or ()]
    image = next((each for each in images if "kube-scheduler" in each), "")
    tag = image.partition("@")[0].rpartition(":")[2]
    try:
        own, server = Minor.parse(tag), Minor.parse(version)
    except ValueError:
        message = f"its image is {image or 'not there'}: its version cannot be told from that"
        return CheckFinding("Muster's kube-scheduler", CheckState.NOTE, message)
    fits = own.major == server.major and 0 <= server.minor - own.minor <= 1
    if fits:
        return CheckFinding("Muster's kube-scheduler", CheckState.OK, f"{tag} beside an API server {version}")
    quoted = shlex.quote(_plain(version))
    command = f"helm upgrade muster manifests/helm/muster --reuse-values --set kubeScheduler.image.tag={quoted}"
    namespace = (deployment.get("metadata") or {}).get("namespace")
    return CheckFinding(
        "Muster's kube-scheduler",
        CheckState.MISSING,
        f"{tag} beside an API server {version}: it may be the same minor version or one older",
        (f"{command} --namespace {namespace}" if namespace else command,),
    )


def profile_finding(texts: Sequence[str], check: str) -> CheckFinding:
    """Judge a kube-scheduler's configuration by its profiles and extenders alone; `check` is what does it in full."""
    import yaml

    try:
        documents = [document for text in texts for document in yaml.safe_load_all(text)]
        told = next(each for each in documents if each and each.get("kind") == "KubeSchedulerConfiguration")
        names = [str(each.get("schedulerName")) for each in told.get("profiles") or ()]
        extenders = [str(each.get("urlPrefix")) for each in told.get("extenders") or ()]
    except (yaml.YAMLError, StopIteration, AttributeError, TypeError):
        return CheckFinding("profile", CheckState.MISSING, "no KubeSchedulerConfiguration that can be read", (check,))
    if not (names and extenders):
        message = f"{len(names)} profiles and {len(extenders)} extenders: without one of each Muster is never asked"
        return CheckFinding("profile", CheckState.MISSING, message, (check,))
    message = f"schedulerName {', '.join(names)}, extender {', '.join(extenders)}; `{check}` checks all of it"
    return CheckFinding("profile", CheckState.OK, message)


def gpus_finding(nodes: Sequence[Json]) -> CheckFinding:
    """Say how many GPUs of which products the nodes have, and which are not known to be any."""
    counted: Counter[str] = Counter()
    on: Counter[str] = Counter()
    unnamed: list[str] = []
    products = Products()
    for node in nodes:
        labels, gpus = _labels(node), _gpus(node)
        if not gpus:
            continue
        said = next((labels[key] for key in (*PRODUCT_LABELS, ACCELERATOR_LABEL) if labels.get(key)), "")
        name = said or "without a label that names them"
        if said and products.find(labels, gpus) is None:
            name += " (not in Muster's table)"
        counted[name] += gpus
        on[name] += 1
        if not said:
            unnamed.append(str((node.get("metadata") or {}).get("name")))
    if not counted:
        message = (
            f"none of {len(nodes)} nodes has {' or '.join(GPU_RESOURCES[:2])}: a device plugin or DRA driver is"
            " missing, or no GPU node is up"
        )
        return CheckFinding("GPUs", CheckState.MISSING, message, _DEVICE_PLUGIN)
    message = "; ".join(f"{count} {name} on {on[name]} nodes" for name, count in counted.most_common())
    if unnamed:
        return CheckFinding("GPUs", CheckState.NOTE, f"{message}: {unnamed[0]} for one", _DEVICE_PLUGIN)
    return CheckFinding("GPUs", CheckState.OK, message)


def topology_finding(nodes: Sequence[Json], groups: frozenset[str]) -> CheckFinding:
    """Say which preset the labels of nodes fit, and how many nodes with GPUs have its innermost level."""
    levels = choose_levels((), AUTO, None, (), Counter(key for node in nodes for key in _labels(node)))
    kinds = [group for group in (_HYPER_NODES, *LEVEL_GROUPS) if group in groups]
    before = f"; objects of {', '.join(kinds)} count before that, if there are any" if kinds else ""
    if not levels.levels:
        message = f"{levels.source}: all nodes are equally far from each other to Muster (docs/topology.md){before}"
        return CheckFinding("topology", CheckState.NOTE, message)
    inner = levels.levels[-1].label
    with_gpus = [node for node in nodes if _gpus(node)]
    count = sum(1 for node in with_gpus if _labels(node).get(inner))
    names = ", ".join(level.name for level in levels.levels)
    message = f"{levels.source}: {names}; {count} of {len(with_gpus)} nodes with GPUs have {inner}{before}"
    return CheckFinding("topology", CheckState.OK if count == len(with_gpus) else CheckState.NOTE, message)


def _installing(namespace: str) -> tuple[Access, ...]:
    """Return what the manifests take."""
    own = (("apps", "deployments"), ("", "configmaps"), ("", "serviceaccounts"), ("", "services"), (_RBAC, "roles"))
    return (
        Access("create", "", "namespaces"),
        Access("create", "apiextensions.k8s.io", "customresourcedefinitions"),
        Access("create", _RBAC, "clusterroles"),
        Access("create", _RBAC, "clusterrolebindings"),
        Access("create", "scheduling.k8s.io", "priorityclasses"),
        Access("create", _RBAC, "rolebindings", "kube-system"),
        *(Access("create", group, resource, namespace) for group, resource in own),
        Access("create", "policy", "poddisruptionbudgets", namespace),
    )


def _pod_spec(deployment: Json) -> Json:
    found: Json = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    return found


def _labels(node: Json) -> Mapping[str, str]:
    return (node.get("metadata") or {}).get("labels") or {}


def _gpus(node: Json) -> int:
    """Return how many GPUs a node offers by a device plugin."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    amounts = (str(allocatable.get(resource, "0")) for resource in GPU_RESOURCES)
    return sum(int(amount) for amount in amounts if amount.isdecimal())


def _plain(version: str) -> str:
    """Return `v1.36.3` of `v1.36.3-gke.1`: what registry.k8s.io has."""
    return version.partition("-")[0].partition("+")[0]
