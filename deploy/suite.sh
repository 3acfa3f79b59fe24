#!/usr/bin/env bash
# usage: deploy/suite.sh NAME...   runs tests that are not a part of `make test`, because they download, wait or attack.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
dev=cmd/rolloutd-dev

# As in the Makefile, so that both share what is compiled. The race detector needs C.
export CGO_ENABLED=0
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS

suite() { # NAME
	case $1 in
	trl) # Training steps of TRL's GRPOTrainer on the CPU, on a tiny model. Fetches 3 GB once.
		make test-deps
		ROLLOUTD_TEST_TRL=1 go test -count=1 -timeout 30m ./internal/testkit/pyclient -run TestPackageForPythonTrains -v
		cd $dev && ROLLOUTD_TEST_TRL=1 go test -count=1 -timeout 30m ./e2e -run TestPackageForPythonTrains -v
		;;
	learn) # A policy learns for 30 steps: the short form of docs/learning.md. Fetches 3 GB once.
		make test-deps
		cd $dev && ROLLOUTD_TEST_LEARN=1 go test -count=1 -timeout 60m ./e2e -run TestPolicyLearns -v
		;;
	trainers) # The data for trainers in the classes of their published packages, on the CPU. Fetches 10 GB once.
		deploy/trainers.sh
		;;
	engines) # Rollouts on a real vLLM on the CPU, with a small model that the test makes. Fetches 6 GB once.
		make test-deps
		cd $dev && ROLLOUTD_TEST_ENGINES=1 go test -count=1 -timeout 40m ./e2e -run TestEngine -v
		;;
	nomad) # Pools on a real Nomad, as root. Building Nomad takes seven minutes of CPU time, once.
		make test-deps
		cd $dev && ROLLOUTD_TEST_NOMAD=$(nomad) go test -count=1 -timeout 60m ./e2e -run TestNomad -v
		;;
	kubernetes) # deploy/kubernetes on a real Kubernetes of one node, as root. Building it takes eight minutes of CPU time, once.
		make test-deps
		deploy/kubernetes.sh
		;;
	compose) # docker-compose.yml on Docker Compose v2: healthy, a rollout, nothing left. Takes the ports of the roles.
		compose
		;;
	stores) # Buckets of every kind; `make test` tests S3 alone. The servers for GCS and Azure are built once.
		make test-deps
		CGO_ENABLED=1 ROLLOUTD_TEST_STORES=1 go test -count=1 -race -timeout 30m ./internal/store/... -v
		cd $dev && ROLLOUTD_TEST_STORES=1 go test -count=1 -timeout 30m ./e2e -run TestRolloutOnOtherStores -v
		;;
	systems) # OpenCode in images of Debian and of musl, made of Debian's packages. As root; fetches 100 MB once.
		make test-deps
		deploy/roots.sh bin/roots
		cd $dev && SANDBOX_TEST_ROOTS=$root/bin/roots go test -count=1 -timeout 30m ./e2e -run TestRolloutOnOtherSystems -v
		;;
	wheel) # The wheel of `make release` in a clean Debian: the demo with both agents. As root; fetches 100 MB once.
		make test-deps
		make release ARCHS="$(go env GOARCH)"
		deploy/cleanroot.sh dist/rolloutd-*.whl
		;;
	systemd) # The units in a Debian that systemd boots, as docs/deployment.md says. As root; fetches 100 MB of Debian once.
		make build
		deploy/systemd.sh
		;;
	release) # The same bytes of a second `make release`. Takes half an hour.
		make release
		same
		;;
	upgrade) # This build replaces the last release, or the commit RELEASE, amid model calls. Builds the release once.
		ROLLOUTD_TEST_RELEASE=$(release "${RELEASE:-ee5912de}")
		export ROLLOUTD_TEST_RELEASE
		cd $dev && go test -count=1 -timeout 20m ./e2e -run TestUpgradeFromRelease -v
		;;
	crash) # What docs/reliability.md promises of kills, pauses, full disks and lost networks. As root.
		make test-deps
		export ROLLOUTD_REDTEAM=1
		CGO_ENABLED=1 crash . -race
		cd $dev && crash . -parallel=2
		;;
	patience) # The real clients wait for rollouts of ten minutes.
		make test-deps
		cd $dev && ROLLOUTD_TEST_PATIENCE=10m go test -count=1 -timeout 30m ./e2e \
			-run TestClientsWaitAsLongAsRolloutsTake -v
		;;
	openenv-latest) # The edge against the newest release of openenv, if that is later than the pinned one.
		deploy/openenv-latest.sh
		;;
	redteam-grading) # Every cheat against every kind of verifier, with sandboxes that exhaust their resources meanwhile.
		ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 30m ./internal/grading
		;;
	redteam-sandbox) # Probes of the isolation, limits, kills, trees and layers of a million files.
		ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 20m \
			./internal/sandbox/... ./internal/driver/... ./internal/sandboxd/... ./internal/image ./cmd/sandboxd
		;;
	redteam-server) # Memory of the largest requests, forged calls, kills at each event, cheats with the real agent.
		go test -count=1 -timeout 10m ./envserver -run 'Memory|ManyClientsShareOneResult|Dropped'
		go test -count=1 -timeout 10m ./internal/gateway -run 'Memory|Foreign|Tools|Session'
		cd $dev
		go test -count=1 -timeout 20m ./e2e -run 'Cheats|Outcomes|ForgedCalls|PolicyHides'
		ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 30m ./e2e \
			-run 'EpisodesAreIsolated|KilledAtEachEvent|CheatsInContainers|CheatsLive|TemporalKilled|EngineRestarts'
		;;
	redteam-fuzz) # Every decoder of untrusted input.
		deploy/fuzz.sh 5s
		;;
	*)
		echo "there is no suite $1: $(grep -oP '^\t\K[a-z-]+(?=\) #)' "$root/deploy/suite.sh" | paste -sd' ')" >&2
		exit 2
		;;
	esac
}

# compose starts all roles in containers, under a name of their own, beside whose data they leave nothing.
compose() {
	docker compose version >/dev/null 2>&1 || { echo "skipped: no Docker Compose v2"; return; }
	docker image inspect rolloutd-env >/dev/null 2>&1 || make image
	local it="docker compose -p rolloutd-test --profile all"
	# shellcheck disable=SC2064 # it is local
	trap "$it down -v" EXIT
	$it up -d --wait
	$it exec -d serve rolloutd model
	$it exec -T serve tee /tmp/task.yaml <examples/binary_search.yaml >/dev/null
	$it exec -T serve rolloutd run /tmp/task.yaml --agent react --endpoint scripted | tee /dev/stderr | grep '^  reward *1$'
}

# crash runs the tests that docs/reliability.md names and that are in the module of a folder.
crash() { # FOLDER FLAGS...
	local names packages
	names=$(grep -oP '`\KTest\w+(?=`)' "$root/docs/reliability.md" | sort -u | paste -sd'|')
	packages=$(cd "$1" && grep -rlE "^func ($names)\(" --include=*_test.go . | grep -v "^./$dev/" | xargs -n1 dirname | sort -u)
	# shellcheck disable=SC2086 # a word for each package
	go test -count=1 -timeout 60m "${@:2}" -run "^($names)\$" $packages
}

# same builds the release again, in another folder and without the compiled packages of the first build.
same() {
	local copy
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	git clone --quiet . "$copy/rolloutd"
	mkdir "$copy/rolloutd/bin"
	ln -s "$root/bin/tools" "$copy/rolloutd/bin/tools"
	GOCACHE=$copy/cache make -C "$copy/rolloutd" release
	diff dist/SHA256SUMS "$copy/rolloutd/dist/SHA256SUMS"
}

# release builds rolloutd-dev and sandboxd of a commit, outside of the checkout, and prints their folder.
release() { # COMMIT
	local to=$root/bin/tools/release-$1 copy
	if [ ! -x "$to/rolloutd-dev" ]; then
		copy=$(mktemp -d)
		trap 'rm -rf "$copy"' RETURN
		git archive "$1" | tar -x -C "$copy"
		(cd "$copy" && go build -o "$to/sandboxd" ./cmd/sandboxd)
		(cd "$copy/cmd/rolloutd-dev" && go build -o "$to/rolloutd-dev" .)
	fi
	echo "$to"
}

# nomad builds Nomad, which is under the Business Source License; our programs contain no part of it.
nomad() {
	local binary=$root/bin/tools/nomad-v1.10.5
	[ -x "$binary" ] || (cd "$root/internal/pool/nomad/agent" && CGO_ENABLED=1 go build -ldflags '-s -w' -o "$binary" github.com/hashicorp/nomad)
	echo "$binary"
}

for name in "$@"; do
	(suite "$name")
done
