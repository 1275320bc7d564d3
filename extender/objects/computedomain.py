"""ComputeDomains of NVIDIA's driver: nodes of one NVLink clique whose GPUs may read each other's memory (IMEX).

Source: NVIDIA/k8s-dra-driver-gpu: api/nvidia.com/resource/v1beta1/computedomain.go, resourceclaimtemplate.go of
cmd/compute-domain-controller, driver.go and computedomain.go of cmd/compute-domain-kubelet-plugin. Each node offers one
channel, and is in one domain at a time. The driver makes a claim template, by which pods join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from msgspec import Struct

from extender.objects.keys import Options
from extender.objects.meta import Decoder, Int64, ObjectMeta, ObjectRef
from extender.objects.reason import Problem
from extender.objects.resourceclaim import ClaimSpec
from extender.objects.topology import IMPLIED_SET

API_VERSION: Final = "resource.nvidia.com/v1beta1"

#: The class that templates of ComputeDomains ask for. Source: computeDomainDefaultChannelDeviceClass.
CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"

#: The level that pods of one domain share, unless they ask for another one.
CLIQUE: Final = "clique"


class ChannelTemplateObject(Struct, gc=False, frozen=True):
    """The claim template that the driver makes, by its name."""

    name: str | None = None


class ChannelObject(Struct, gc=False, frozen=True, rename="camel"):
    """How pods get a channel."""

    resource_claim_template: ChannelTemplateObject | None = None


class ComputeDomainSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a ComputeDomain."""

    num_nodes: Int64 | None = None
    channel: ChannelObject | None = None


class ComputeDomainObject(Struct, gc=False, frozen=True):
    """A `resource.nvidia.com/v1beta1` ComputeDomain."""

    metadata: ObjectMeta | None = None
    spec: ComputeDomainSpec | None = None


decode_compute_domain = Decoder(ComputeDomainObject, "ComputeDomain")


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    """Which claim template is of a domain, and how many nodes are to join it: 0 where nothing waits for that."""

    about: ObjectRef
    template: str = ""
    nodes: int = 0

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.about.namespace}/{self.about.name}"

    @property
    def template_key(self) -> str:
        """Render the template as `namespace/name`."""
        return f"{self.about.namespace}/{self.template}"

    def problem(self, pods: int, needed: int) -> Problem | None:
        """Return why the domain may never be complete with a gang, None if there is no reason.

        `pods` ask for a channel, each on a node of its own, and the gang starts with `needed` of them.
        """
        field = f"{self.about}: spec.numNodes"
        if not self.nodes or needed == self.nodes:
            return None
        if needed > self.nodes:
            return Problem(field, f"is {self.nodes}; the gang starts on {needed} nodes, as each has one channel")
        if pods == self.nodes:
            return None
        what = f"is {self.nodes}, and the gang starts on {needed} nodes"
        return Problem(field, f"{what}: its pods wait for the others where the driver has IMEXDaemonsWithDNSNames off")


def read_compute_domain(item: ComputeDomainObject) -> ComputeDomain:
    """Read a ComputeDomain; it never raises."""
    meta, spec = item.metadata or ObjectMeta(), item.spec or ComputeDomainSpec()
    about = ObjectRef(API_VERSION, "ComputeDomain", meta.namespace or "", meta.name or "", meta.uid or "")
    template = (spec.channel or ChannelObject()).resource_claim_template or ChannelTemplateObject()
    return ComputeDomain(about, template.name or "", max(spec.num_nodes or 0, 0))


def asks_for_channel(spec: ClaimSpec) -> bool:
    """Tell whether a claim is for the channel of a ComputeDomain."""
    return any(option.device_class == CHANNEL_CLASS for request in spec.requests for option in request.options)


def joined(options: Options, template: str) -> Options:
    """Return the options of a pod that joins a ComputeDomain by a claim template: all who do are in one clique.

    What is asked of levels otherwise counts instead, as a domain may be of several cliques.
    """
    peers = options.peers
    if peers.required or peers.preferred:
        return options
    return replace(options, peers=replace(peers, required=CLIQUE, podset=f"{IMPLIED_SET}{template}"))
