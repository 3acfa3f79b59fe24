#!/usr/bin/env bash
# usage: deploy/trainers.sh   checks the data for trainers, and the adapters, with the published packages of the trainers, on the CPU.
# Makes an environment for each package below the cache, once; fetches 10 GB. Needs root, debootstrap, and Python 3.12 or 3.13:
# ROLLOUTD_TRAINERS_PYTHON names it.
set -euo pipefail
cd "$(dirname "$0")/../clients/python"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rolloutd-test/trainers
export PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1

# rolloutd refuses variables that it does not know
chosen=${ROLLOUTD_TRAINERS_PYTHON:-}
unset ROLLOUTD_TRAINERS_PYTHON

# The adapters need a server: that of ROLLOUTD_TEST_SERVER, with its scripted model at ROLLOUTD_TEST_MODEL, or one that is built and started here.
if [ -z "${ROLLOUTD_TEST_SERVER:-}" ]; then
	make --quiet -C ../.. build
	data=$(mktemp -d)
	../../bin/rolloutd-dev --data "$data" --port-offset 3100 --no-ui >"$data/out" 2>&1 &
	server=$!
	trap 'kill "$server"; wait "$server" || true; rm -rf "$data"' EXIT
	until grep -q 'is ready' "$data/out"; do
		kill -0 "$server" || { cat "$data/out" >&2; exit 1; }
		sleep 1
	done

	# Harbor's tasks run in an image, and rolloutd builds those with a Dockerfile.
	export ROLLOUTD_DATA=$data PATH=$PWD/../../bin:$PATH
	if [ ! -e "$cache/debian/.complete" ]; then
		rm -rf "$cache/debian"
		mkdir -p "$cache/debian"
		debootstrap --variant=minbase trixie "$cache/debian" >&2
		touch "$cache/debian/.complete"
	fi
	rolloutd image import "$cache/debian" debian:1 >&2

	# after the import, for the same reason
	export ROLLOUTD_TEST_SERVER=http://127.0.0.1:11100 ROLLOUTD_TEST_MODEL=http://127.0.0.1:12199/v1 ROLLOUTD_TEST_IMAGE=debian:1
fi

python=
for candidate in "$chosen" python3.12 python3.13 python3; do
	if "${candidate:-false}" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 14))' 2>/dev/null; then
		python=$candidate
		break
	fi
done
[ -n "$python" ] || { echo "trainers: set ROLLOUTD_TRAINERS_PYTHON to Python 3.12 or 3.13" >&2; exit 1; }

[ -x "$cache/uv/bin/uv" ] || { "$python" -m venv "$cache/uv" && "$cache/uv/bin/pip" install --quiet uv; }

# check NAME PATTERN PACKAGE... [-- PACKAGE...]: runs the tests of the pattern with the packages, those after -- without their dependencies.
check() {
	local name=$1 pattern=$2 with=() alone=()
	shift 2
	while [ $# -gt 0 ] && [ "$1" != -- ]; do with+=("$1") && shift; done
	[ $# -eq 0 ] || { shift && alone=("$@"); }

	local venv=$cache/$name
	if [ ! -e "$venv/ready" ]; then
		rm -rf "$venv"
		"$cache/uv/bin/uv" venv --quiet --python "$python" "$venv"
		"$cache/uv/bin/uv" pip install --quiet --python "$venv/bin/python" pytest==9.2.0 httpx==0.28.1 "${with[@]}"
		[ ${#alone[@]} -eq 0 ] || "$cache/uv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps "${alone[@]}"
		touch "$venv/ready"
	fi

	echo "trainers: $name"
	# without harbor its file counts as a skipped test
	local out tests=(tests/test_trainers_packages.py tests/test_trainers_adapters.py tests/test_trainers_page.py tests/test_slime.py
		tests/test_engine.py)
	[ "$name" != harbor ] || tests=(tests/test_harbor.py)
	out=$("$venv/bin/python" -m pytest -p no:cacheprovider -rs "${tests[@]}" -k "$pattern" 2>&1) || { echo "$out"; return 1; }
	echo "$out" | tail -n 1
	if echo "$out" | tail -n 1 | grep -q skipped; then
		echo "$out" >&2
		return 1
	fi
}

# source_of NAME REPOSITORY COMMIT: puts a trainer that no package has into the path of the tests. Without its repository
# the tests of that trainer are skipped.
source_of() {
	local to=$cache/sources/$1
	if [ ! -e "$to" ]; then
		rm -rf "$to.part"
		git init --quiet "$to.part"
		git -C "$to.part" fetch --quiet --depth 1 "$2" "$3" || { echo "$1: cannot be fetched, not tested" >&2; return 0; }
		git -C "$to.part" checkout --quiet FETCH_HEAD
		mv "$to.part" "$to"
	fi
	PYTHONPATH+=:$to
}

check verifiers verifiers verifiers==0.4.0
check nemo-gym nemo_gym nemo-gym==0.4.0
check harbor harbor harbor==0.26.0
check agentlightning agentlightning agentlightning==1.0.2 numpy
check art 'art_collects or art_makes' openpipe-art==0.5.23 torch transformers
# areal needs Python below 3.13.
if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
	check areal areal areal==1.0.4
else
	echo "trainers: areal is left out, it needs Python 3.12" >&2
fi
# Packages that pip cannot install whole without a GPU or at all: skyrl and openrlhf pin flash-attn for their trainers, and tinker-cookbook
# needs a version of tml-renderers that is not published.
source_of slime https://github.com/THUDM/slime 624b824a898ab0ec1fcb4d373004c7f3852bf515
source_of miles https://github.com/radixark/miles 31f1ca961a94cb860cec3b2dea34ec332bfa8f76
source_of rllm https://github.com/rllm-org/rllm 9beb6e0f676a46d38858991fd79ac5f8e0b16d4c
# the published package of its gateway is older
PYTHONPATH+=:$cache/sources/rllm/rllm-model-gateway/src
check trainers 'verl or skyrl or tinker or openrlhf or slime or rllm or engine' verl==0.9.1 transferqueue==0.1.11 cachetools fastapi uvicorn \
	chz termcolor tinker==0.38.0 blobfile cloudpathlib loguru func_timeout jaxtyping pybase64 orjson \
	-- skyrl==0.4.0 skyrl-gym==0.4.0 tinker-cookbook==0.6.1 openrlhf==0.11.2
