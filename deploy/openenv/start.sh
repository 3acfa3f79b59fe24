#!/bin/sh
# Starts the server on port 8000: the edge of a deployment if TEMPORAL_ADDRESS is set, else all roles in this container.
set -eu
if [ -n "${TEMPORAL_ADDRESS:-}" ]; then
	run() { exec rolloutd serve; }
else
	run() { exec rolloutd-dev --data "$ROLLOUTD_DATA"; }
fi
if [ -n "${ROLLOUTD_TOKENS:-}${ROLLOUTD_TOKENS_FILE:-}" ]; then
	export ROLLOUTD_LISTEN=0.0.0.0:8000
	run
fi
if [ "${OPEN_PORT:-}" != 1 ]; then
	echo "start.sh: set ROLLOUTD_TOKENS, or OPEN_PORT=1 to accept every client that reaches port 8000" >&2
	exit 1
fi
export ROLLOUTD_LISTEN=127.0.0.1:8001
socat TCP-LISTEN:8000,fork,reuseaddr TCP:127.0.0.1:8001 &
run
