#!/usr/bin/env bash
# Create a kind cluster with Muster in it, from this checkout. Needs docker, kind and kubectl.
# Run it again after a change: it keeps the cluster and rolls the new image out.
set -euo pipefail
cd "$(dirname "$0")/.."

cluster=muster
gpus_per_node=8

need() {
    command -v "$1" >/dev/null && return
    echo "kind/up.sh needs $1: $2" >&2
    exit 1
}
need docker 'https://docs.docker.com/engine/install'
need kind 'go install sigs.k8s.io/kind@latest'
need kubectl 'https://kubernetes.io/docs/tasks/tools'

kubectl() {
    command kubectl --context "kind-$cluster" "$@"
}

# Every build gets a tag of its own, so that applying the manifests rolls the Deployment.
image="muster:$(date +%Y%m%d%H%M%S)"
docker build --tag "$image" .

if ! kind get clusters | grep --line-regexp --quiet "$cluster"; then
    kind create cluster --name "$cluster" --config kind/cluster.yaml --wait 2m
fi
kind load docker-image --name "$cluster" "$image"

# The kubelet keeps extended resources that it finds in its node's status; no device plugin is needed to schedule by them.
gpus="[
  {\"op\": \"add\", \"path\": \"/status/capacity/nvidia.com~1gpu\", \"value\": \"$gpus_per_node\"},
  {\"op\": \"add\", \"path\": \"/status/allocatable/nvidia.com~1gpu\", \"value\": \"$gpus_per_node\"}
]"
for node in $(kubectl get nodes --selector '!node-role.kubernetes.io/control-plane' --output name); do
    kubectl patch "$node" --subresource status --type json --patch "$gpus"
done

# A kube-scheduler must not be newer than the API server, and kind's nodes hold the image of their own version.
version="$(kubectl get --raw /version | sed -n 's/.*"gitVersion": "\([^"]*\)".*/\1/p')"
kubectl kustomize manifests |
    sed -e "s|\(image: registry.k8s.io/kube-scheduler\):.*|\1:$version|" -e "s|image: muster:.*|image: $image|" |
    kubectl apply --server-side --force-conflicts -f -
kubectl --namespace muster-system rollout status deployment/muster --timeout 3m

cat <<TEXT

Muster runs in kind-$cluster. Submit a gang and watch it start as a whole:

  kubectl --context kind-$cluster apply -f examples/gang.yaml
  kubectl --context kind-$cluster get podgroups,pods -o wide

Remove it all with: kind delete cluster --name $cluster
TEXT
