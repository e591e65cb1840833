#!/bin/sh
# Checks what can be checked of a release before it is published: `make release-check` calls it once the files are made.
#
#   deploy/release-check.sh             # their checksums, the image, its program, the manifests
#   TAG=v0.1.0 deploy/release-check.sh  # also that the version and the changelog are those of this tag
#
# Needs skopeo and kubectl.
set -eu
cd "$(dirname "$0")/.."
KUBECTL=${KUBECTL:-kubectl}
files=$PWD/target/release-files
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

fail() { echo "error: $*" >&2; exit 1; }
command -v skopeo > /dev/null || fail "the check needs skopeo: apt-get install skopeo"

if [ -n "${TAG-}" ]; then
  [ "$TAG" = "v$version" ] || fail "the tag is $TAG, and Cargo.toml has version $version"
  grep -q "^## \[$version\] - 20[0-9-]*\$" CHANGELOG.md || fail "CHANGELOG.md has no section '## [$version] - DATE'"
  echo "version and changelog: $TAG"
fi

(cd "$files" && sha256sum --check --quiet SHA256SUMS)
echo "checksums: $(wc -l < "$files/SHA256SUMS") files"

image=oci-archive:$files/everynode-$version.tar
digest=sha256:$(skopeo inspect --raw "$image" | sha256sum | cut -d ' ' -f 1)
for manifest in install.yaml install-beside.yaml; do
  grep -q "image: .*/everynode@$digest\$" "$files/$manifest" || fail "$manifest does not name the image $digest"
done
skopeo inspect --config "$image" | grep -q '"User": *"65532:65532"' || fail "the image runs as another user than 65532"
echo "image and manifests: $digest"

work=$(mktemp -d)
sandbox=
trap '[ -z "$sandbox" ] || kill "$sandbox"; rm -rf "$work"' EXIT
machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
tar --extract --gzip --file "$files/everynode-linux-$machine.tar.gz" --directory "$work"
everynode=$work/everynode
readelf --program-headers "$everynode" | grep -q INTERP && fail "the program is not static"
"$everynode" version | grep -qF "$version" || fail "the program has another version than $version"
"$everynode" sandbox --nodes 2 --kubeconfig-out "$work/kubeconfig" > "$work/log" 2>&1 &
sandbox=$!
for _ in $(seq 100); do
  [ -s "$work/kubeconfig" ] && break
  sleep 0.1
done
[ -s "$work/kubeconfig" ] || fail "the program starts no sandbox: $(cat "$work/log")"
export KUBECONFIG="$work/kubeconfig"
for manifest in install.yaml install-beside.yaml; do
  namespace=$(sed -n 's/^  namespace: //p' "$files/$manifest" | sort -u | head -n 1)
  $KUBECTL get namespace "$namespace" > "$work/log" 2>&1 || $KUBECTL create namespace "$namespace" > "$work/log"
  $KUBECTL apply --filename "$files/$manifest" > "$work/log"
done
echo "program: static, $("$everynode" version | head -n 1); a sandbox accepts the manifests"
