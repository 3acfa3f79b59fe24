# `make demo` runs the main job on this machine, `make test` runs the test suite. docs/benchmarks.md has the measurements,
# CONTRIBUTING.md the suites that download, wait or attack.

BIN := $(CURDIR)/bin
DEV := cmd/rolloutd-dev
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/rolloutd/rolloutd/internal/daemon.Version=$(VERSION)

# Tools are built from the Go module proxy, under names with their version: a new version is installed, an old one is kept.
TOOLS := $(BIN)/tools
LINT := $(TOOLS)/golangci-lint-v2.15.0
VULN := $(TOOLS)/govulncheck-v1.8.0
SUM := $(TOOLS)/gotestsum-v1.13.0
SBOM := $(TOOLS)/cyclonedx-gomod-v1.10.0
HATCHLING := $(TOOLS)/hatchling-1.33.0/bin/hatchling
TORCH := $(TOOLS)/torch

# Static binaries, as those of a release. Whatever a target compiles is found in the build cache by the others; only the race
# detector needs C.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath

# The platforms of `make release`.
ARCHS := amd64 arm64

# where the race run of the tests has AVX2
AVX2 := $(if $(shell grep -m1 -o avx2 /proc/cpuinfo 2>/dev/null),GOAMD64=v3)

.PHONY: demo build release deps test test-deps test-root test-race test-plain test-dev lint format generate redteam crash image learn clean

# A rollout of OpenCode on the example task, with the scripted model. AGENT=react runs the tool agent.
demo: deps build
	@exec $(BIN)/rolloutd-dev --demo examples/binary_search.yaml $(if $(AGENT),--demo-agent $(AGENT))

# sandboxd is copied after linking. The kernel maps a file that the linker wrote page by page, and a file written by
# write(2) in larger pieces, which starts 0.7 ms sooner. sandboxd starts for every sandbox and every process in it.
build:
	go build -ldflags '-s -w' -o $(BIN)/sandboxd.linked ./cmd/sandboxd
	install $(BIN)/sandboxd.linked $(BIN)/sandboxd
	rm $(BIN)/sandboxd.linked
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/rolloutd ./cmd/rolloutd
	cd $(DEV) && go build -ldflags '$(LDFLAGS)' -o $(BIN)/rolloutd-dev .

# Static binaries for Linux in dist/, with their components, wheels that contain them, and checksums. The same commit, Go and
# Python make the same bytes in any folder.
release: $(SBOM) $(HATCHLING)
	deploy/release.sh $(SBOM) $(HATCHLING) $(VERSION) $(ARCHS)

# What rolloutd needs on this machine; what its tests need as well.
deps:
	@deploy/deps.sh

test-deps:
	@deploy/deps.sh --test

# One after the other: each keeps two cores busy, and an agent that shares them with ten others takes minutes to start.
test: test-deps lint test-root test-dev

# Never from the cache: Go does not know that a test builds and runs this project's programs. Without vet, which lint runs.
test-root: $(SUM)
	$(MAKE) --jobs 2 test-race test-plain

# A program with the race detector sleeps for a second at its end; GORACE says not to. The detector comes with checks of
# unsafe pointers, which only this module gets: in other packages, mostly reflect, they take an eighth of the time of the
# server's tests. GOGC saves a twentieth of the processor time for twice the memory, and AVX2, which the detector itself then
# uses, another twentieth. Some packages wait for half of their time, so three run at once on two cores. Those that wait
# longest begin first: they would end alone.
test-race:
	CGO_ENABLED=1 $(AVX2) GOGC=400 GORACE=atexit_sleep_ms=0 $(SUM) --format standard-quiet -- -count=1 -race -vet=off -p 3 -timeout 60m \
		-gcflags=all=-d=checkptr=0 -gcflags=github.com/rolloutd/rolloutd/...= \
		$(addprefix ./internal/,grading driver/docker testkit/pyclient tool/sandboxtool) ./...

# The tests that measure the memory of requests and replies, and those of the page in a browser, under the race detector take
# ten and four times as long; other tests run the same code under it. They wait for the browser half of their time.
test-plain:
	go test -count=1 -vet=off -timeout 10m ./envserver ./internal/gateway -run 'TestMemoryOf|TestPage|TestSavedPage'

# The nested module embeds the Temporal server, which is slow to build with the race detector and not our code. Its tests
# wait for most of their time, for agents and timers, so eight run at once. The end-to-end tests begin first.
test-dev: $(SUM)
	cd $(DEV) && $(SUM) --format standard-quiet -- -count=1 -vet=off -parallel 8 -timeout 80m ./e2e ./...

# golangci-lint (which includes go vet) over both modules, then known vulnerabilities. Results are cached between runs.
lint: $(LINT) $(VULN)
	$(LINT) run ./...
	cd $(DEV) && $(LINT) run --config ../../.golangci.yml ./...
	@deploy/vulncheck.sh $(VULN)

# Shorter lines, and a blank line between the steps of a function, as lint demands.
format: $(LINT)
	$(LINT) fmt --enable golines ./...
	$(LINT) run --enable-only wsl_v5 --fix ./...
	cd $(DEV) && $(LINT) run --config ../../.golangci.yml --enable-only wsl_v5 --fix ./...

# The descriptions that the server serves, and the pages in docs/reference.
generate:
	UPDATE=1 go test ./envserver -run 'TestDescriptions|TestReferencePages'
	UPDATE=1 go test ./internal/config -run 'TestReferenceOf(Limits|Configuration)'
	UPDATE=1 go test ./cmd/rolloutd -run TestReferenceOfCommands
	cd $(DEV) && UPDATE=1 go test ./e2e -run TestReferenceOfMetrics

# Attacks by a hostile policy, client or endpoint, as root and as an ordinary user; docs/security.md names them.
redteam:
	deploy/suite.sh redteam-grading redteam-sandbox redteam-server redteam-fuzz

# Kills, pauses, full disks and lost networks, as root; docs/reliability.md names the tests.
crash:
	deploy/suite.sh crash

# All roles as one image, for docker-compose.yml, Kubernetes and OpenEnv's tools.
image: build
	mkdir -p deploy/openenv/bin
	cp $(BIN)/rolloutd $(BIN)/rolloutd-dev $(BIN)/sandboxd deploy/openenv/bin/
	docker build -t rolloutd-env deploy/openenv

# A tiny policy learns from real rollouts: docs/learning.md. ARGS has arguments of examples/learning/learn.py and train.py.
learn: deps build $(TORCH)
	PYTHONPATH=clients/python/src $(TORCH)/bin/python examples/learning/learn.py $(ARGS)

clean:
	rm -rf $(BIN) dist

$(TORCH): examples/learning/requirements.txt
	python3 -m venv $@
	$@/bin/python -m pip install --quiet -r $<
	touch $@

$(LINT):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

$(VULN):
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@v1.8.0
	mv $(TOOLS)/govulncheck $@

# Its own checksum is in what it writes, so it is built the same in any folder too.
$(SBOM):
	GOBIN=$(TOOLS) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
	mv $(TOOLS)/cyclonedx-gomod $@

$(HATCHLING):
	python3 -m venv $(TOOLS)/hatchling-1.33.0
	$(TOOLS)/hatchling-1.33.0/bin/python -m pip install --quiet hatchling==1.33.0

$(SUM):
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@v1.13.0
	mv $(TOOLS)/gotestsum $@
