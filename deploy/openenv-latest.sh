#!/usr/bin/env bash
# openenv-latest.sh: asks the package registry for the newest release of openenv. If it is later than the pinned one, runs the tests of the edge
# with that release's clients and its reference server, and fails if they fail. If the registry does not answer, prints a warning and succeeds.
# ROLLOUTD_TEST_OPENENV names a release to test instead, without asking the registry.
set -euo pipefail

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$(dirname "$0")/.."
pinned=$(sed -n 's/^openenv==//p' internal/testkit/pyclient/requirements-0.10.txt)
newest=${ROLLOUTD_TEST_OPENENV:-}

if [ -z "$newest" ]; then
  python3 -m venv "$tmp/venv"
  if ! "$tmp/venv/bin/pip" --disable-pip-version-check --retries 1 --timeout 15 index versions openenv >"$tmp/out" 2>"$tmp/errors"; then
    echo "openenv-latest: skipped, the package registry does not answer: $(tail -n 1 "$tmp/errors")" >&2
    exit 0
  fi
  newest=$(sed -n 's/^openenv (\(.*\))$/\1/p' "$tmp/out")
  [ -n "$newest" ] || { echo "openenv-latest: skipped, no release in the registry's answer: $(head -n 1 "$tmp/out")" >&2; exit 0; }
  if [ "$(printf '%s\n' "$pinned" "$newest" | sort -V | tail -n 1)" = "$pinned" ]; then
    echo "openenv-latest: openenv $pinned, which the tests pin, is the newest release"
    exit 0
  fi
fi

echo "openenv-latest: tests of the edge with openenv $newest; the tests pin $pinned"
run="^TestPythonClients\$/^${newest//./\\.}\$|^TestHarborClient\$|^TestTheReferenceAgrees\$|^TestOpenEnvPackage\$"
if ! ROLLOUTD_TEST_OPENENV=$newest go test -count=1 -timeout 15m ./envserver -run "$run" >"$tmp/out" 2>&1; then
  cat "$tmp/out"
  echo "openenv-latest: openenv $newest differs from docs/edge.md: extend the tables of envserver/testdata/wire, then pin the release" >&2
  exit 1
fi
echo "openenv-latest: the tests pass with openenv $newest; pin it in internal/testkit/pyclient"
