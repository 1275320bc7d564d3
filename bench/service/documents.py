"""What an API server stores of a pod and of a node, made up, with gaps `@NAME@` for what tells one from another."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

GPU = "nvidia.com/gpu"
NAMESPACE = "research"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
#: What a node offers.
NODE_GPUS, NODE_CPUS = 8, 128
_DRIVER = "gpu.nvidia.com"

CREATED = "2026-09-14T08:31:07Z"


def pod_document(*, grouped: bool, bound: bool, nominated: bool, gpus: int, cpu: str) -> JsonObject:
    """Return a pod, of a gang or not, and as far as it has come."""
    labels = {
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/instance": "@NAME@",
        "app.kubernetes.io/part-of": "foundation-models",
        "app.kubernetes.io/managed-by": "training-operator",
        "batch.kubernetes.io/job-name": "trainer-2026-09-14",
        "pod-template-hash": "6d4cf56db6",
        "team": "research-foundation",
    }
    if grouped:
        labels[GROUP_LABEL] = "@GROUP@"
    spec: JsonObject = {
        "volumes": [
            {"name": "dataset", "persistentVolumeClaim": {"claimName": "dataset-imagenet-21k"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "kube-api-access-x7k2p", "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}},
        ],
        "containers": [_container(gpus, cpu)],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "trainer",
        "serviceAccount": "trainer",
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "schedulerName": "@SCHEDULER@",
        "tolerations": [
            {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
            *(
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ),
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    status: JsonObject = {"phase": "Pending", "qosClass": "Burstable"}
    if bound:
        spec["nodeName"] = "@NODE@"
        status |= _RUNNING
    if nominated:
        status["nominatedNodeName"] = "@NOMINATED@"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "@NAME@",
            "generateName": "trainer-2026-09-14-",
            "namespace": NAMESPACE,
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "labels": labels,
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "prometheus.io/port": "9400",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "trainer-2026-09-14",
                    "uid": "7f0f4d9e-3a3c-4a70-b7f4-3f5ad0a2a1c9",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                _managed("kube-controller-manager", "", _POD_OWNED),
                _managed("kubelet", "status", {"f:status": _owned(*_CONDITION_KEYS, *_STATUS_KEYS)}),
            ],
        },
        "spec": spec,
        "status": status,
    }


def _container(gpus: int, cpu: str) -> JsonObject:
    resources: JsonObject = {"cpu": cpu, "memory": "1Gi"}
    if gpus:
        resources[GPU] = str(gpus)
    return {
        "name": "trainer",
        "image": "registry.example.com/research/trainer:2026.09.14-cuda12.8-nccl2.26-py3.12",
        "command": ["torchrun", "--nnodes=64", "--nproc-per-node=8", "--rdzv-backend=c10d", "train.py"],
        "env": [
            {"name": name, "value": value}
            for name, value in (
                ("NCCL_DEBUG", "WARN"),
                ("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
                ("NCCL_SOCKET_IFNAME", "eth0"),
                ("OMP_NUM_THREADS", "8"),
                ("CHECKPOINT_FOLDER", "/checkpoints/2026-09-14"),
                ("DATASET_INDEX", "/data/imagenet-21k/index/shards-00000-of-16384.idx"),
                ("WANDB_PROJECT", "foundation-models-vision"),
            )
        ],
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": [
            {"name": "dataset", "mountPath": "/data", "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a path inside a pod
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def device_class_document() -> JsonObject:
    """Return the class of the GPUs in ResourceSlices, which stands for those that pods ask for as resources too."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": _DRIVER, "uid": _DRIVER, "resourceVersion": "1", "creationTimestamp": CREATED},
        "spec": {
            "extendedResourceName": GPU,
            "selectors": [
                {"cel": {"expression": f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].type == 'gpu'"}}
            ],
        },
    }


def slice_document() -> JsonObject:
    """Return the ResourceSlice of a node's GPUs, with the attributes that NVIDIA's driver publishes."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": "@NAME@-gpu",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "managedFields": [_managed("gpu-kubelet-plugin", "", {"f:spec": _owned("devices", "driver", "pool")})],
        },
        "spec": {
            "driver": _DRIVER,
            "nodeName": "@NAME@",
            "pool": {"name": "@NAME@", "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(NODE_GPUS)],
        },
    }


def _device(number: int) -> JsonObject:
    texts = {
        "type": "gpu",
        "uuid": f"GPU-@UID@-{number}",
        "productName": "NVIDIA A100-SXM4-80GB",
        "brand": "Nvidia",
        "architecture": "Ampere",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{number // 2:02x}",
        "resource.kubernetes.io/pciBusID": f"0000:{number:02x}:00.0",
    }
    versions = {"cudaComputeCapability": "8.0.0", "driverVersion": "570.86.15", "cudaDriverVersion": "12.8.0"}
    attributes: JsonObject = {name: {"string": text} for name, text in texts.items()}
    attributes |= {name: {"version": version} for name, version in versions.items()}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def node_document(*, sliced: bool) -> JsonObject:
    """Return a node that is ready and empty; if it is `sliced`, its GPUs are in a ResourceSlice."""
    capacity = {
        "cpu": str(NODE_CPUS),
        "memory": "2113462364Ki",
        "ephemeral-storage": "6291456Mi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
        **({} if sliced else {GPU: str(NODE_GPUS)}),
    }
    labels = {
        "kubernetes.io/hostname": "@NAME@",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "a2-ultragpu-8g",
        "topology.kubernetes.io/region": "us-central1",
        "topology.kubernetes.io/zone": "@ZONE@",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": str(NODE_GPUS),
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/mig.strategy": "single",
        "feature.node.kubernetes.io/rdma.available": "true",
    }
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "2026-09-14T08:36:12Z",
            "lastTransitionTime": CREATED,
            "reason": f"Kubelet{kind}",
            "message": f"kubelet reports on {kind}",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready")
    ]
    images = [
        {
            "names": [
                f"registry.example.com/platform/daemon-{number:02}@sha256:{number:064x}",
                f"registry.example.com/platform/daemon-{number:02}:v1.{number}.0",
            ],
            "sizeBytes": 104_857_600 + number,
        }
        for number in range(18)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "@NAME@",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "labels": labels,
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": [
                _managed("kube-controller-manager", "", {"f:metadata": {"f:labels": _owned(*labels)}}),
                _managed("kubelet", "status", {"f:status": {"f:conditions": _owned(*_CONDITION_KEYS)}}),
                _managed("node-feature-discovery", "", {"f:metadata": {"f:labels": _owned(*labels)}}),
            ],
        },
        "spec": {"providerID": "gce://research/us-central1-a/@NAME@", "podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions,
            "addresses": [{"type": "Hostname", "address": "@NAME@"}, {"type": "InternalIP", "address": "10.0.0.7"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "9f2c5d7e0b3a4c1d8e6f7a9b0c1d2e3f",
                "systemUUID": "@UID@",
                "bootID": "@UID@",
                "kernelVersion": "6.8.0-1021-gke",
                "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.37.0",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": images,
        },
    }


def _managed(manager: str, subresource: str, fields: JsonObject) -> JsonObject:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "subresource": subresource,
    }


def _owned(*names: str) -> JsonObject:
    return {f"f:{name}": {} for name in names}


_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
]
_CONDITION_KEYS = tuple(
    f"{kind}.{part}"
    for kind in ("Ready", "Initialized", "PodScheduled", "ContainersReady")
    for part in ("type", "status", "reason", "message", "lastProbeTime", "lastTransitionTime")
)
_STATUS_KEYS = ("containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs", "startTime")
_POD_OWNED: JsonObject = {
    "f:metadata": {
        "f:generateName": {},
        "f:annotations": {},
        "f:labels": _owned("app.kubernetes.io/name", "app.kubernetes.io/instance", "team", GROUP_LABEL),
        "f:ownerReferences": {'k:{"uid":"7f0f4d9e-3a3c-4a70-b7f4-3f5ad0a2a1c9"}': {}},
    },
    "f:spec": {
        'f:containers[k:{"name":"trainer"}]': _owned(
            "command", "env", "image", "imagePullPolicy", "name", "resources", "terminationMessagePath", "volumeMounts"
        ),
        **_owned("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext", "tolerations"),
    },
}
_RUNNING: JsonObject = {
    "phase": "Running",
    "conditions": [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "hostIP": "10.128.0.7",
    "podIP": "10.4.17.23",
    "podIPs": [{"ip": "10.4.17.23"}],
    "startTime": CREATED,
    "containerStatuses": [
        {
            "name": "trainer",
            "state": {"running": {"startedAt": CREATED}},
            "ready": True,
            "restartCount": 0,
            "image": "registry.example.com/research/trainer:2026.09.14-cuda12.8-nccl2.26-py3.12",
            "imageID": "registry.example.com/research/trainer@sha256:" + "3f" * 32,
            "containerID": "containerd://" + "9c" * 32,
            "started": True,
        }
    ],
}
