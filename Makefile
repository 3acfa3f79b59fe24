# Two commands matter: `make demo` runs the main job on this machine, `make test` runs the whole test suite.

BIN := $(CURDIR)/bin
DEV := cmd/rolloutd-dev
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Tools are built from the Go module proxy, under names with their version, so that a new version is installed and an old one is kept.
TOOLS := $(BIN)/tools
LINT_VERSION := v2.15.0
LINT := $(TOOLS)/golangci-lint-$(LINT_VERSION)
VULN_VERSION := v1.8.0
VULN := $(TOOLS)/govulncheck-$(VULN_VERSION)
SUM_VERSION := v1.13.0
SUM := $(TOOLS)/gotestsum-$(SUM_VERSION)

# The tests of pools start Nomad. It is under the Business Source License; our programs contain no part of it.
NOMAD_VERSION := v1.10.5
NOMAD := $(TOOLS)/nomad-$(NOMAD_VERSION)

TEST := $(CURDIR)/deploy/test.sh $(SUM)

LDFLAGS := -X github.com/rolloutd/rolloutd/internal/daemon.Version=$(VERSION)

.PHONY: demo demo-react test redteam redteam-grading redteam-sandbox redteam-server redteam-fuzz build deps test-deps lint test-root test-dev test-trl test-engines test-nomad test-stores test-openenv-latest test-systems test-patience bench-rollout bench-control bench-waiting bench-floor bench-episodes bench-sandbox bench-images bench-gateway bench-edge bench-nomad bench-producer openenv-image clean

demo-react: deps build
	@exec bin/rolloutd-dev --demo examples/binary_search.yaml --demo-agent react

demo: deps build
	@exec bin/rolloutd-dev --demo examples/binary_search.yaml

test: test-deps lint test-root test-dev

# sandboxd is copied after linking. The kernel maps a file that the linker wrote page by page, and a file written by write(2) in larger pieces, which
# starts 0.7 ms sooner. sandboxd starts for every sandbox and every process in it.
build:
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $(BIN)/sandboxd.linked ./cmd/sandboxd
	install $(BIN)/sandboxd.linked $(BIN)/sandboxd
	rm $(BIN)/sandboxd.linked
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/rolloutd ./cmd/rolloutd
	cd $(DEV) && go build -ldflags '$(LDFLAGS)' -o $(BIN)/rolloutd-dev .

# openenv-image makes the image that deploy/openenv describes.
openenv-image: build
	mkdir -p deploy/openenv/bin
	cp $(BIN)/rolloutd $(BIN)/rolloutd-dev $(BIN)/sandboxd deploy/openenv/bin/
	docker build -t rolloutd-env deploy/openenv

deps:
	@deploy/deps.sh

test-deps:
	@deploy/deps.sh --test

# golangci-lint (which includes go vet) over both modules, then known vulnerabilities. Results are cached between runs.
lint: $(LINT) $(VULN)
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(LINT) run ./...
	cd $(DEV) && $(LINT) run --config ../../.golangci.yml ./...
	@deploy/vulncheck.sh $(VULN)

$(LINT):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(TOOLS)/golangci-lint $@

$(VULN):
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)
	mv $(TOOLS)/govulncheck $@

$(SUM):
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@$(SUM_VERSION)
	mv $(TOOLS)/gotestsum $@

# Never from the cache: Go does not know that a test builds and runs this project's programs. Without vet, which lint runs.
# The tests that measure the memory of requests send one after the other, so the race detector would find nothing in them.
test-root: $(SUM)
	$(TEST) -count=1 -race -vet=off -timeout 20m
	go test -count=1 -vet=off -timeout 10m ./envserver -run TestMemoryOf

# Attacks by a hostile policy, client or endpoint, as root and as an ordinary user; see docs/security.md. `make test` runs a part of them.
redteam: redteam-grading redteam-sandbox redteam-server redteam-fuzz

# Every cheat against every kind of verifier, in local sandboxes, containers and machines; sandboxes that exhaust their resources while another one is graded.
redteam-grading:
	ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 30m ./internal/grading

# Probes of the isolation, limits, kills, trees and layers of a million files.
redteam-sandbox:
	ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 20m ./internal/sandbox/... ./internal/sandboxd/... ./internal/image ./cmd/sandboxd

# Memory of the largest requests to every route, and of the replies of hostile endpoints; cheats and outcomes with the real agent; isolation of episodes; the
# executor's answers; a kill at each event of a rollout and of an episode.
redteam-server:
	go test -count=1 -timeout 10m ./envserver -run 'Memory|ManyClientsShareOneResult|Dropped'
	go test -count=1 -timeout 10m ./internal/gateway/proxy -run 'Memory|Foreign|Tools|Session'
	cd $(DEV) && go test -count=1 -timeout 20m ./e2e -run 'Cheats|Outcomes|ForgedCalls|PolicyHides'
	cd $(DEV) && ROLLOUTD_REDTEAM=1 go test -count=1 -timeout 30m ./e2e -run 'EpisodesAreIsolated|ExecutorAnswersAsAgentEnv|KilledAtEachEvent|CheatsInContainers'

# Every decoder of untrusted input.
redteam-fuzz:
	deploy/fuzz.sh 5s

# The nested module embeds the Temporal server, which is slow to build with the race detector and not our code. Most of its tests wait for
# other processes, so more of them run at once than there are cores.
test-dev: $(SUM)
	cd $(DEV) && $(TEST) -count=1 -vet=off -parallel 4 -timeout 30m

# Training steps of TRL's GRPOTrainer. Not a part of `make test`: it fetches 3 GB once. CI runs it.
test-trl: test-deps
	ROLLOUTD_TEST_TRL=1 go test -count=1 -timeout 30m ./internal/pyclient -run TestPackageForPythonTrains -v
	cd $(DEV) && ROLLOUTD_TEST_TRL=1 go test -count=1 -timeout 30m ./e2e -run TestPackageForPythonTrains -v

# Rollouts against a real vLLM on the CPU, with a small model that the test makes. Not a part of `make test`: it fetches 6 GB once.
test-engines: test-deps
	cd $(DEV) && ROLLOUTD_TEST_ENGINES=1 go test -count=1 -timeout 40m ./e2e -run TestEngine -v

# Pools on a real Nomad, as root. Not a part of `make test`: building Nomad takes some seven minutes of CPU time, once.
test-nomad: test-deps $(NOMAD)
	cd $(DEV) && ROLLOUTD_TEST_NOMAD=$(NOMAD) go test -count=1 -timeout 60m ./e2e -run TestNomad -v

$(NOMAD):
	cd internal/pool/nomad/agent && go build -ldflags '-s -w' -o $@ github.com/hashicorp/nomad

# Buckets of every kind. Not a part of `make test`, which tests S3 alone: the servers for GCS and Azure are built and installed once, in some two minutes.
test-stores: test-deps
	ROLLOUTD_TEST_STORES=1 go test -count=1 -race -timeout 30m ./internal/store/... -v
	cd $(DEV) && ROLLOUTD_TEST_STORES=1 go test -count=1 -timeout 30m ./e2e -run TestRolloutOnOtherStores -v

# The edge against the newest release of openenv, if that is later than the pinned one. Not a part of `make test`: a new release must
# not fail an unchanged tree. CI runs it after the suite, and a failure is a warning there.
test-openenv-latest:
	@deploy/openenv-latest.sh

# OpenCode in images of Debian and of musl, made of Debian's packages. As root; it fetches 100 MB once.
test-systems: test-deps
	deploy/roots.sh $(BIN)/roots
	cd $(DEV) && SANDBOX_TEST_ROOTS=$(BIN)/roots go test -count=1 -timeout 30m ./e2e -run TestRolloutOnOtherSystems -v

# The real clients wait for rollouts of ten minutes. Not a part of `make test`; CI runs both in parallel.
test-patience: test-deps
	cd $(DEV) && ROLLOUTD_TEST_PATIENCE=10m go test -count=1 -timeout 30m ./e2e -run TestClientsWaitAsLongAsRolloutsTake -v

# Measurements, for docs/benchmarks.md; each prints ratios or CPU time. As root, on a machine with nothing else to do.
bench-rollout:
	cd $(DEV) && go test ./e2e -run '^$$' -bench RolloutOverBareAgent -benchtime 10x
	cd $(DEV) && go test ./e2e -run '^$$' -bench MemoryPerLiveRollout -benchtime 8x

# The cost of our own processes compared with that of the agent.
bench-control:
	cd $(DEV) && go test ./e2e -run '^$$' -bench 'ControlPlanePerRollout' -benchtime 10x
	cd $(DEV) && go test ./e2e -run '^$$' -bench 'CPUPerWaitingAgent' -benchtime 1x

# OpenCode agents that wait for their model at the same time: 24, or ROLLOUTD_WAITING. They are swapped out if the machine has swap (deploy/zram.sh).
bench-waiting:
	cd $(DEV) && go test ./e2e -run '^$$' -bench 'WaitingAgents' -benchtime 1x -timeout 90m

# The cost of Temporal for empty workflows, compared with a ReACT rollout.
bench-floor:
	cd $(DEV) && go test ./e2e -run '^$$' -bench 'ReactRollout|TemporalFloor' -benchtime 20x

# ReACT rollouts, steps of episodes, both in flight, and tool calls.
bench-episodes:
	cd $(DEV) && go test ./e2e -run '^$$' -bench 'ReactRollout|EpisodeStep' -benchtime 20x
	cd $(DEV) && ROLLOUTD_IN_FLIGHT=100 go test ./e2e -run '^$$' -bench ReactInFlight -benchtime 1x
	go test ./internal/agent/react -run '^$$' -bench InFlight -benchtime 1x
	go test ./internal/episode/live ./internal/tool/sandboxtool -run '^$$' -bench 'Call|InFlight' -benchtime 2s

# The start of sandboxes, and what the place of the graded work costs.
bench-sandbox:
	go test ./internal/sandbox/local -run '^$$' -bench CreateToFirstExec -benchtime 100x
	go test ./internal/grading -run '^$$' -bench Place -benchtime 20x

# The pull of an image needs skopeo and umoci; 200 sandboxes of one image need some 2 GiB of memory.
bench-images:
	go test ./internal/image -run '^$$' -bench Pull -benchtime 5x -timeout 30m
	go test ./internal/sandbox/local -run '^$$' -bench ManyOfOneImage -benchtime 3x -timeout 30m

bench-gateway: $(BIN)/bench-venv
	go run ./internal/gateway/bench -python $(BIN)/bench-venv/bin/python

bench-edge:
	ROLLOUTD_BENCH_EDGE=1 go test ./envserver/bench -run 'TestEdge|TestDropped' -v -count=1 -timeout 10m

# The share of a model endpoint's capacity that a producer keeps busy while sandboxes are killed.
bench-producer:
	cd $(DEV) && ROLLOUTD_BENCH_BUSY=1 go test ./e2e -run TestProducerKeepsTheEndpointBusy -v -count=1 -timeout 30m

# Forty rollouts on a pool of four hosts on a real Nomad, compared with four hosts without it, alternating.
bench-nomad: $(NOMAD)
	cd $(DEV) && ROLLOUTD_BENCH_NOMAD=1 ROLLOUTD_TEST_NOMAD=$(NOMAD) go test ./e2e -run TestNomadPoolOverBareHosts -v -count=1 -timeout 30m

$(BIN)/bench-venv:
	python3 -m venv $@
	$@/bin/pip install -q fastapi httpx 'uvicorn[standard]'

clean:
	rm -rf $(BIN)
