"""Objects of Kueue and Volcano as people write them, and what an import makes of such texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extender.objects.queue import Queue, QueueObject, read_queue
from muster_lab.tools.importing.kueue import Naming, import_kueue
from muster_lab.tools.importing.objects import Imported, read_objects
from muster_lab.tools.importing.volcano import import_volcano

#: Two teams in a cohort, a third by itself, as in Kueue's documentation. v1beta1 and v1beta2 differ in `cohort`.
KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec:
  nodeLabels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec:
  nodeLabels: {example.com/spot: "true"}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohortName: research
  namespaceSelector: {}
  queueingStrategy: StrictFIFO
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 500m}
      - {name: nvidia.com/gpu, nominalQuota: 16, borrowingLimit: 8, lendingLimit: 8}
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 40}
      - {name: nvidia.com/gpu, nominalQuota: "4"}
  preemption:
    withinClusterQueue: LowerOrNewerEqualPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
  fairSharing: {weight: "2"}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-b}
spec:
  cohort: research
  namespaceSelector: {matchLabels: {team: b}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: h100
      resources: [{name: nvidia.com/gpu, nominalQuota: 16}]
  stopPolicy: Hold
"""

#: A tree under the capacity plugin, after Volcano's documentation of hierarchical queues.
VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: eng}
spec:
  priority: 3
  deserved: {cpu: 64, nvidia.com/gpu: 32}
  capability: {nvidia.com/gpu: 48}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: train}
spec:
  parent: eng
  dequeueStrategy: fifo
  deserved: {nvidia.com/gpu: 16}
  guarantee: {resource: {nvidia.com/gpu: 4}}
  capability: {nvidia.com/gpu: 24}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: notebooks}
spec:
  parent: eng
  dequeueStrategy: traverse
  deserved: {nvidia.com/gpu: 8}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {}
status: {state: Closed}
"""


def kueue(*texts: str, naming: Naming = Naming.LOCAL_QUEUE) -> Imported:
    """Import texts of Kueue's."""
    return import_kueue(read_objects({f"file-{number}": text for number, text in enumerate(texts)}), naming)


def volcano(*texts: str, capacity: Mapping[str, int] | None = None) -> Imported:
    """Import texts of Volcano's."""
    return import_volcano(read_objects({f"file-{number}": text for number, text in enumerate(texts)}), capacity or {})


def specs(imported: Imported) -> dict[str, dict[str, Any]]:
    """Return the specs of the imported Queues by name."""
    return {one["metadata"]["name"]: one["spec"] for one in imported.manifests if one["kind"] == "Queue"}


def queues(imported: Imported) -> dict[str, Queue]:
    """Return the imported Queues by name, as Muster reads them from the API server."""
    manifests = [one for one in imported.manifests if one["kind"] == "Queue"]
    read = [read_queue(msgspec.json.decode(msgspec.json.encode(one), type=QueueObject)) for one in manifests]
    return {queue.name: queue for queue in read}


def told(imported: Imported) -> list[str]:
    """Return the differences as lines."""
    return list(map(str, imported.differences))
