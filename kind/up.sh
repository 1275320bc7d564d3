#!/usr/bin/env bash
# Create a kind cluster with Muster in it, from this checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cluster=muster
readonly gpus_per_node=8

usage() {
    cat <<TEXT
Usage: kind/up.sh [--help]

Build Muster's image from this checkout and run it in the kind cluster "$cluster": four workers, each with
$gpus_per_node GPUs that exist on paper only. Run it again after a change: it keeps the cluster and rolls the new image
out. Needs docker, kind and kubectl. Without docker, \`make cluster\` does the same with processes.

Remove it all with: kind delete cluster --name $cluster
TEXT
}

fail() {
    printf 'kind/up.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

need() {
    type -P "$1" >/dev/null || fail "$1 is needed. Install it: $2"
}

kubectl() {
    command kubectl --context "kind-$cluster" "$@"
}

case "${1-}" in
    '') ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) fail "there is no option $1; see kind/up.sh --help" 2 ;;
esac

need docker 'https://docs.docker.com/engine/install'
need kind 'go install sigs.k8s.io/kind@latest, or https://kind.sigs.k8s.io/docs/user/quick-start#installation'
need kubectl 'https://kubernetes.io/docs/tasks/tools'
docker info >/dev/null 2>&1 || fail 'docker does not answer. Start it, and see that you may use it: docker info'

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

# A kube-scheduler must not be newer than the API server.
version="$(kubectl get --raw /version | sed -n 's/.*"gitVersion": "\([^"]*\)".*/\1/p')"
[[ -n $version ]] || fail 'the API server does not say its version: kubectl get --raw /version'
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
