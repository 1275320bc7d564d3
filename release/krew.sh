#!/usr/bin/env bash
# Print krew's manifest for the archives of `kubectl muster` in a folder: krew.sh VERSION REPOSITORY FOLDER
set -euo pipefail
shopt -s failglob
version=$1 repository=$2 folder=$3

cat <<EOF
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: muster
spec:
  version: v$version
  homepage: $repository
  shortDescription: Ask Muster about gangs of GPU pods
  description: |
    Says why a gang of GPU pods waits and what would help, who holds which GPU, how the Queues
    stand, and what was decided last. It asks the Muster that runs in the cluster, through the
    API server and with the rights of your kubeconfig.
  caveats: |
    You need the Role muster-view in Muster's namespace.
  platforms:
EOF
for archive in "$folder/kubectl-muster-$version"-*.tar.gz; do
    platform=${archive##*"-$version-"}
    platform=${platform%.tar.gz}
    cat <<EOF
    - selector:
        matchLabels:
          os: ${platform%-*}
          arch: ${platform#*-}
      uri: $repository/releases/download/v$version/${archive##*/}
      sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)
      bin: kubectl-muster/kubectl-muster
EOF
done
