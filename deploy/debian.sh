#!/usr/bin/env bash
# debian.sh KEPT PACKAGES [COPY]   makes a root file system of Debian in KEPT, once, and copies it to COPY. As root; needs debootstrap.
set -euo pipefail
kept=$1 packages=$2 copy=${3:-}
if [ ! -e "$kept/.complete" ]; then
	rm -rf "$kept"
	mkdir -p "$kept"
	debootstrap --variant=minbase trixie "$kept"

	# By apt: debootstrap does not find all that npm depends on.
	cp /etc/resolv.conf "$kept/etc/"
	chroot "$kept" apt-get update -qq
	# shellcheck disable=SC2086 # a word for each package
	DEBIAN_FRONTEND=noninteractive chroot "$kept" apt-get install -qq --no-install-recommends $packages
	chroot "$kept" apt-get clean
	touch "$kept/.complete"
fi
[ -z "$copy" ] || cp -a "$kept" "$copy"
