#!/usr/bin/env bash
# usage: deploy/test.sh GOTESTSUM FLAGS-OF-GO-TEST...   runs the tests of the module in the current directory.
#
# A test that fails is run once more, alone, when six or fewer fail (subtests count) and none has a data race. gotestsum runs no test again
# if a package panics, because the rest of that package has not run. In this case all tests of the failed packages run once more if three
# or fewer packages failed. Each run is printed. A test that passes only the second time has a fault to fix; the other results are still valid.
set -euo pipefail
sum=$1
shift
events=$(mktemp)
trap 'rm -f "$events"' EXIT

run() { # PACKAGES FLAGS...
	"$sum" --format standard-quiet --jsonfile "$events" --rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-run-root-test \
		--rerun-fails-abort-on-data-race --packages "$1" -- "${@:2}"
}

run ./... "$@" && exit
if ! grep -q '"Output":"panic: ' "$events" || grep -q 'WARNING: DATA RACE' "$events"; then
	exit 1
fi
failed=$(sed -n '/"Action":"fail"/{/"Test":/d; s/.*"Package":"\([^"]*\)".*/\1/p}' "$events" | sort -u | tr '\n' ' ')
if [ "$(wc -w <<<"$failed")" -gt 3 ]; then
	exit 1
fi
echo "RUN AGAIN, as a package panicked: $failed"
run "$failed" "$@"
