#!/usr/bin/env bash
# Installs what rolloutd needs from Debian's own packages, and only what is missing: bubblewrap (sandboxes), ripgrep and
# python3 (used by agents inside them). With --test also what the test suite needs. Changes nothing if nothing is missing.
set -euo pipefail

need=() # Debian packages
want() { command -v "$1" >/dev/null 2>&1 || need+=("$2"); }

# Sandboxes see the host's /usr, so the tools must be installed there and not, for instance, in a home directory.
[ -x /usr/bin/python3 ] || need+=(python3)
[ -x /usr/bin/rg ] || need+=(ripgrep)
want bwrap bubblewrap
if [ "${1:-}" = --test ]; then
  want gcc gcc # the race detector
  want git git # cloned in a sandbox
  want chromium chromium # the web page's tests
  # As root, the tests of containers start a daemon of their own, and the wheel is installed in a new Debian.
  [ "$(id -u)" -ne 0 ] || { want dockerd docker.io; want debootstrap debootstrap; }
  [ -e /usr/include/stdlib.h ] || need+=(libc6-dev)
  { python3 -c 'import ensurepip, venv' && /usr/bin/python3 -c 'import ensurepip, venv'; } 2>/dev/null || need+=(python3-venv)
fi
for tool in go npm; do
  command -v "$tool" >/dev/null 2>&1 || { echo "deps: $tool is missing; install it and run this again" >&2; exit 1; }
done
# Debian's own go may be too old to read go.mod, and its error is unclear; Go 1.21 and later downloads the required version.
(cd "$(dirname "$0")/.." && go list -m >/dev/null) ||
  { echo "deps: Go 1.26 is needed, and this is $(go version)" >&2; exit 1; }
[ ${#need[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "deps: run as root: apt-get install ${need[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "deps: installing ${need[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
