"""The programs that are built here, the Go modules that pin them, and which go together in a Kubernetes release."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from localcluster.errors import LocalClusterError

MODULES_DIRECTORY = Path(__file__).parent / "modules"


class Binary(StrEnum):
    """A program of the control plane, or one that checks what is shipped; the value is its executable's file name."""

    ETCD = "etcd"
    KUBE_APISERVER = "kube-apiserver"
    KUBE_SCHEDULER = "kube-scheduler"
    KUBE_CONTROLLER_MANAGER = "kube-controller-manager"
    KUBECTL = "kubectl"
    KWOK = "kwok"
    PROMTOOL = "promtool"
    HELM = "helm"
    KUBECONFORM = "kubeconform"
    DRA_ORACLE = "dra-oracle"
    TRAINING_OPERATOR = "training-operator"
    JOBSET = "jobset"
    KARPENTER = "karpenter"
    OAUTH2_PROXY = "oauth2-proxy"


#: What nearly all tests and `make cluster` run. kube-controller-manager is left out: they need none of its controllers
#: (pods are created singly, no namespace is ever deleted, node health is kwok's), and it would only compete for two
#: cores.
DEFAULT_BINARIES = (Binary.ETCD, Binary.KUBE_APISERVER, Binary.KUBE_SCHEDULER, Binary.KUBECTL, Binary.KWOK)
#: What tests of devices run besides: it makes ResourceClaims of templates, and ends allocations that nobody uses.
DEVICE_BINARIES = (Binary.KUBE_CONTROLLER_MANAGER,)
#: What tests check alert rules, the chart, manifests and the model of devices with. `make cluster` does without.
CHECKING_BINARIES = (Binary.PROMTOOL, Binary.HELM, Binary.KUBECONFORM, Binary.DRA_ORACLE)
#: The controllers of operators that make pods, for the nightly stories about them: those build them first.
OPERATOR_BINARIES = (Binary.TRAINING_OPERATOR, Binary.JOBSET)
#: What makes nodes for waiting pods in tests of the night. It takes four minutes on two cores to build.
AUTOSCALING_BINARIES = (Binary.KARPENTER,)

#: The dependency whose version the programs of a Kubernetes module are linked with.
_KUBERNETES = "k8s.io/kubernetes"

_API_SERVER_AND_SCHEDULER: Mapping[Binary, str] = {
    Binary.KUBE_APISERVER: f"{_KUBERNETES}/cmd/kube-apiserver",
    Binary.KUBE_SCHEDULER: f"{_KUBERNETES}/cmd/kube-scheduler",
}
_CONTROLLERS: Mapping[Binary, str] = {
    Binary.KUBE_CONTROLLER_MANAGER: f"{_KUBERNETES}/cmd/kube-controller-manager",
}


@dataclass(frozen=True, slots=True)
class Module:
    """A pinned Go module and the programs that are built from it."""

    name: str
    packages: Mapping[Binary, str]
    #: Go's build tags. They also decide which dependencies go.mod and go.sum need to name.
    tags: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Return the folder that holds go.mod and go.sum."""
        return MODULES_DIRECTORY / self.name

    def required_version(self, dependency: str) -> str:
        """Return the version of `dependency` that go.mod pins, such as `v1.37.0`."""
        found = self._search(rf"^\s*(?:require\s+)?{re.escape(dependency)}\s+(v\S+)")
        if found is None:
            raise LocalClusterError(f"{self.directory / 'go.mod'} does not require {dependency}")
        return found.group(1)

    def go_version(self) -> tuple[int, ...]:
        """Return the oldest Go version that go.mod accepts, such as (1, 26, 0)."""
        found = self._search(r"^go\s+([\d.]+)")
        if found is None:
            raise LocalClusterError(f"{self.directory / 'go.mod'} has no go directive")
        return version_tuple(found.group(1))

    def ldflags(self) -> str:
        """Return the linker flags for the module's programs.

        `-s -w` drops debug symbols. A Kubernetes program that is linked without its version reports v0.0.0, which
        clients take for an ancient server.
        """
        if not any(package.startswith(_KUBERNETES) for package in self.packages.values()):
            return "-s -w"
        version = self.required_version(_KUBERNETES)
        major, minor, *_ = version.removeprefix("v").split(".")
        package = "k8s.io/component-base/version"
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {package}.{name}={value}" for name, value in values.items())])

    def _search(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, (self.directory / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)


KUBERNETES = Module(
    "kubernetes",
    {
        **_API_SERVER_AND_SCHEDULER,
        **_CONTROLLERS,
        Binary.ETCD: "go.etcd.io/etcd/server/v3",
        Binary.KUBECTL: f"{_KUBERNETES}/cmd/kubectl",
    },
)
#: A module of its own: kwok is built against another minor version of the Kubernetes libraries.
KWOK = Module("kwok", {Binary.KWOK: "sigs.k8s.io/kwok/cmd/kwok"})
#: One module for each, so that a new version of one neither builds the others anew nor changes what they depend on.
#: Promtool does without service discovery, which no rule makes use of and which links a client of every cloud. What is
#: built against the same version of the Kubernetes libraries compiles them once: Go caches that.
CHECKING_MODULES = (
    Module(
        "promtool",
        {Binary.PROMTOOL: "github.com/prometheus/prometheus/cmd/promtool"},
        tags=("remove_all_sd",),
    ),
    Module("helm", {Binary.HELM: "helm.sh/helm/v4/cmd/helm"}),
    Module("kubeconform", {Binary.KUBECONFORM: "github.com/yannh/kubeconform/cmd/kubeconform"}),
    # A program of ours around kube-scheduler's allocator of devices, which is a library.
    Module("dra-oracle", {Binary.DRA_ORACLE: "."}),
)
#: Programs of ours that run other projects' controllers without their webhooks.
OPERATOR_MODULES = tuple(Module(name, {name: "."}) for name in OPERATOR_BINARIES)
#: Karpenter with its provider of nodes that kwok keeps alive.
KARPENTER_MODULE = Module("karpenter", {Binary.KARPENTER: "sigs.k8s.io/karpenter/kwok"})
#: What signs users in before they ask Muster.
OAUTH2_PROXY_MODULE = Module("oauth2-proxy", {Binary.OAUTH2_PROXY: "github.com/oauth2-proxy/oauth2-proxy/v7"})
#: What only nightly stories run.
NIGHTLY_MODULES = (*OPERATOR_MODULES, KARPENTER_MODULE, OAUTH2_PROXY_MODULE)

#: What an older release shares with the newest one: an older API server works with a newer etcd, and kubectl only
#: renders manifests here. Not kube-controller-manager, which must not be newer than its API server.
_SHARED = Module(KUBERNETES.name, {name: KUBERNETES.packages[name] for name in (Binary.ETCD, Binary.KUBECTL)})


class Release(StrEnum):
    """A minor version of Kubernetes that can be run here."""

    V1_35 = "1.35"
    V1_36 = "1.36"
    V1_37 = "1.37"

    @property
    def modules(self) -> tuple[Module, ...]:
        """Return the Go modules that this release's programs come from; each program is in one of them at most."""
        if self is NEWEST:
            return (KUBERNETES, KWOK, *CHECKING_MODULES, *NIGHTLY_MODULES)
        own = {**_API_SERVER_AND_SCHEDULER, **(_CONTROLLERS if self.has_controllers else {})}
        return (Module(f"{KUBERNETES.name}-{self}", own), _SHARED, KWOK, *CHECKING_MODULES, *NIGHTLY_MODULES)

    @property
    def has_controllers(self) -> bool:
        """Tell whether its kube-controller-manager is built too: devices are tried where extended resources work."""
        return self is not Release.V1_35


#: What everything runs with unless it is told otherwise; the only release that CI builds.
NEWEST = Release.V1_37


def version_tuple(text: str) -> tuple[int, ...]:
    """Return `1.26.0` as numbers that compare."""
    return tuple(int(part) for part in text.split("."))
