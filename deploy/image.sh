#!/bin/sh
# Builds the container image without a container engine, as an OCI archive that containerd, podman, kind and skopeo read:
# the static program, and the certificates of public authorities for servers that rollouts ask. No shell, no package.
#
#   deploy/image.sh                                        # for this machine
#   TARGET=aarch64-unknown-linux-gnu deploy/image.sh       # for another one: rustup target add, and a linker for it
#
# The same commit, compiler and certificates make the same image. `make image` runs it. Needs umoci and cargo-auditable, by
# which the program states the crates that it is made of: scanners of images (trivy, grype, syft) read that.
set -eu
cd "$(dirname "$0")/.."

CERTIFICATES=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}
OUTPUT=${OUTPUT:-target/image}
CARGO=${CARGO:-cargo}

fail() { echo "error: $*" >&2; exit 1; }
command -v umoci > /dev/null || fail "the image needs umoci: apt-get install umoci"
[ -r "$CERTIFICATES" ] || fail "no file $CERTIFICATES: apt-get install ca-certificates, or set CERTIFICATES to a file of authorities"

host=$(rustc -vV | sed -n 's/^host: //p')
target=${TARGET:-$host}
case $target in
  x86_64-*) architecture=amd64 ;;
  aarch64-*)
    architecture=arm64
    if [ "$target" != "$host" ]; then
      export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
    fi ;;
  *) fail "no image for $target: only for x86_64 and aarch64" ;;
esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git describe --always --abbrev=40 --dirty --exclude "*")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# Linked statically with glibc: with musl and its allocator a rollout costs almost twice the CPU. A target that is named keeps
# the flag away from build scripts and macros, which can't be static. A package with a profile of its own ignores `strip` of
# the whole profile.
PATH=$PWD/target/tools/bin:$PATH RUSTFLAGS="-C target-feature=+crt-static" "$CARGO" auditable build --release --locked --target "$target" \
  --config 'profile.release.package.everynode-cli.strip="symbols"' --package everynode-cli --bin everynode

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root layout=$work/layout
mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs"
cp "target/$target/release/everynode" "$root/usr/local/bin/"
cp "$CERTIFICATES" "$root/etc/ssl/certs/ca-certificates.crt"

# Whoever builds it and when, the same files make the same archive.
pack() { tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$@"; }
pack --file "$work/layer.tar" --directory "$root" etc usr
image=$layout:$version
umoci init --layout "$layout"
umoci new --image "$image"
umoci raw add-layer --image "$image" --history.created "$created" --history.created_by deploy/image.sh "$work/layer.tar"
umoci config --image "$image" --no-history --created "$created" --os linux --architecture "$architecture" \
  --config.user 65532:65532 --config.entrypoint /usr/local/bin/everynode --config.cmd run \
  --config.label org.opencontainers.image.title=everynode \
  --config.label "org.opencontainers.image.description=A DaemonSet controller for Kubernetes" \
  --config.label "org.opencontainers.image.version=$version" \
  --config.label "org.opencontainers.image.revision=$commit" \
  --config.label org.opencontainers.image.licenses=Apache-2.0
umoci gc --layout "$layout"
# The name under which `ctr images import` stores it, as deploy/base has it.
sed -i "s|\"annotations\":{|&\"io.containerd.image.name\":\"docker.io/library/everynode:$version\",|" "$layout/index.json"

mkdir -p "$OUTPUT"
archive=$OUTPUT/everynode-$version-linux-$architecture.tar
pack --file "$archive" --directory "$layout" oci-layout index.json blobs
digest=$(sed -n 's/.*"digest":"\([^"]*\)".*/\1/p' "$layout/index.json")
cat << END
$archive: everynode:$version for linux/$architecture, $(($(stat -c %s "$archive") / 1048576)) MiB, $digest
to put it on a node:      ctr -n k8s.io images import $archive
to put it in a registry:  skopeo copy oci-archive:$archive docker://REGISTRY/everynode:$version
END
