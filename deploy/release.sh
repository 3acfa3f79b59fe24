#!/usr/bin/env bash
# release.sh CYCLONEDX HATCHLING VERSION ARCH...   builds for `make release` into dist/: static binaries of each platform,
# the components of each binary as CycloneDX, a wheel with the Python client and the binaries, and SHA256SUMS.
set -euo pipefail
cyclonedx=$1 hatchling=$2 version=$3
shift 3
cd "$(dirname "$0")/.."
dist=$PWD/dist

# pip's names of the platforms. A static binary runs with any C library; 2.17 is the oldest that all versions of pip accept.
declare -A platforms=([amd64]=manylinux_2_17_x86_64 [arm64]=manylinux_2_17_aarch64)

# No path and no time of this build gets into a binary.
export CGO_ENABLED=0 GOOS=linux GOFLAGS='-trimpath -buildvcs=false'
ldflags="-s -w -X github.com/rolloutd/rolloutd/internal/daemon.Version=$version"

rm -rf "$dist"
for arch in "$@"; do
	[ -n "${platforms[$arch]:-}" ] || { echo "release.sh: no platform $arch: ${!platforms[*]}" >&2; exit 2; }
	folder=$dist/linux-$arch
	mkdir -p "$folder"
	GOARCH=$arch go build -ldflags "$ldflags" -o "$folder/" ./cmd/rolloutd ./cmd/sandboxd
	(cd cmd/rolloutd-dev && GOARCH=$arch go build -ldflags "$ldflags" -o "$folder/rolloutd-dev" .)

	for program in rolloutd rolloutd-dev sandboxd; do
		"$cyclonedx" bin -json -noserial -notimestamp -version "$version" -output "$folder/$program.cdx.json" "$folder/$program"
	done

	(cd clients/python && ROLLOUTD_PROGRAMS=$folder ROLLOUTD_PLATFORM=${platforms[$arch]} "$hatchling" build -t wheel -d "$dist")
done
(cd "$dist" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$dist.sums" && mv "$dist.sums" SHA256SUMS)
