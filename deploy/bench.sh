#!/usr/bin/env bash
# usage: deploy/bench.sh NAME...   makes the measurements of docs/benchmarks.md: ratios in one run, or CPU time.
# As root, on a machine with nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
dev=cmd/rolloutd-dev

bench() { # NAME
	case $1 in
	rollout) # A rollout compared with a bare agent, and the memory of a live one.
		cd $dev
		go test ./e2e -run '^$' -bench RolloutOverBareAgent -benchtime 10x
		go test ./e2e -run '^$' -bench MemoryPerLiveRollout -benchtime 8x
		;;
	control) # The cost of our own processes compared with that of the agent.
		cd $dev
		go test ./e2e -run '^$' -bench ControlPlanePerRollout -benchtime 10x
		go test ./e2e -run '^$' -bench CPUPerWaitingAgent -benchtime 1x
		;;
	growth) # The memory of one process over 2,000 rollouts, which takes half an hour.
		cd $dev
		go test ./e2e -run '^$' -bench MemoryOverRollouts -benchtime 250x -timeout 90m
		;;
	waiting) # Agents that wait for their model at once: 24, or ROLLOUTD_WAITING. With swap they are swapped out.
		cd $dev
		go test ./e2e -run '^$' -bench WaitingAgents -benchtime 1x -timeout 90m
		;;
	floor) # The cost of Temporal for empty workflows, compared with a ReACT rollout.
		cd $dev
		go test ./e2e -run '^$' -bench 'ReactRollout|TemporalFloor' -benchtime 20x
		;;
	episodes) # ReACT rollouts, steps of episodes, both in flight, and tool calls.
		(cd $dev && go test ./e2e -run '^$' -bench 'ReactRollout|EpisodeStep' -benchtime 20x)
		(cd $dev && ROLLOUTD_IN_FLIGHT=100 go test ./e2e -run '^$' -bench ReactInFlight -benchtime 1x)
		go test ./internal/agent/react -run '^$' -bench InFlight -benchtime 1x
		go test ./internal/episode/toolservice ./internal/tool/sandboxtool -run '^$' -bench 'Call|InFlight' -benchtime 2s
		;;
	sandbox) # The start of sandboxes, and what the place of the graded work costs.
		go test ./internal/driver/local -run '^$' -bench CreateToFirstExec -benchtime 100x
		go test ./internal/grading -run '^$' -bench Place -benchtime 20x
		;;
	images) # The pull needs skopeo and umoci; 200 sandboxes of one image need some 2 GiB of memory.
		go test ./internal/image -run '^$' -bench Pull -benchtime 5x -timeout 30m
		go test ./internal/driver/local -run '^$' -bench ManyOfOneImage -benchtime 3x -timeout 30m
		;;
	gateway) # The gateway compared with OpenEnv's capture proxy.
		venv=$root/bin/bench-venv
		[ -d "$venv" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q fastapi httpx 'uvicorn[standard]'; }
		go run ./internal/gateway/bench -python "$venv/bin/python"
		;;
	edge) # The edge compared with the reference server, and 10,000 dropped connections.
		ROLLOUTD_BENCH_EDGE=1 go test ./envserver/bench -run 'TestEdge|TestDropped' -v -count=1 -timeout 10m
		;;
	search) # Words in 10,000 transcripts.
		go test ./internal/searchindex -run '^$' -bench Search -benchtime 20x -v
		;;
	page) # The page in Chromium: a list of 10,000 rollouts, and one of 500 turns.
		cd $dev
		go test ./e2e -run '^$' -bench 'Page$' -benchtime 1x -timeout 40m -v
		;;
	producer) # The share of a model endpoint's capacity that a producer keeps busy while sandboxes are killed.
		cd $dev
		ROLLOUTD_BENCH_BUSY=1 go test ./e2e -run TestProducerKeepsTheEndpointBusy -v -count=1 -timeout 30m
		;;
	nomad) # Forty rollouts on a pool of four hosts, compared with four hosts alone; after `deploy/suite.sh nomad`.
		cd $dev
		ROLLOUTD_BENCH_NOMAD=1 ROLLOUTD_TEST_NOMAD=$root/bin/tools/nomad-v1.10.5 \
			go test ./e2e -run TestNomadPoolOverBareHosts -v -count=1 -timeout 30m
		;;
	*)
		echo "there is no benchmark $1: $(grep -oP '^\t\K[a-z-]+(?=\) #)' "$root/deploy/bench.sh" | paste -sd' ')" >&2
		exit 2
		;;
	esac
}

for name in "$@"; do
	(bench "$name")
done
