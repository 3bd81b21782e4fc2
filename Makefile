# Slipway's build. Everything that a target needs it installs by itself, from the Go module proxy or Debian's packages.

GO          ?= go
BIN         := bin
LDFLAGS     := -s -w -X main.version=$(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TESTFLAGS   ?=
export PATH := $(PATH):/usr/sbin:/sbin
# Packages whose tests talk to real servers. In the gate they run one at a time, beside the others, once the servers are built.
SERVERS     := ./sdk/shim/internal/onnomad $(addprefix ./plugins/nomad,/. /nomadtest /store /internal/onnomad) ./plugins/garden/...
# The gate runs these without the race detector: examples, mutants and slipway-runc are small programs made of packages that have tests of their own, and
# nothing in the two packages of host/ runs beside anything else.
ALONE       := ./conformance/mutant ./examples/... ./plugins/runc/... ./sdk/guide ./host/config ./host/job

# Those that take longest begin first, and much of their time they wait: so twice as many packages run at once as there are processors. With
# more, each needs more of a processor, and all of them end later.
LONG        := ./sdk/shim/internal/onrunc ./cmd/host ./host ./conformance
ATONCE      := $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))

# What has the race detector waits at its end for what others may still tell, by itself for a second.
GORACE      ?= atexit_sleep_ms=50

# The race detector leaves SQLite alone, which is C that was translated by a program and works on memory that is not Go's: to watch it took
# more than half of what package store needs. The packages are vetted by check. No debugger reads the tests' programs, and to link what it
# would is half of the linker's time.
RACE        := -race -vet=off -ldflags=-w -gcflags=modernc.org/...=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false

# What the compiler makes does not name the directory that it was made in, and so serves every clone on this machine.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# Slipway has no cgo. What is compiled without it serves programs, checks and tests alike; only the race detector needs it, and has all compiled anew anyway.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: programs shim store ## build the static binaries: bin/slipway, bin/slipway-memory, bin/slipway-garden, bin/slipway-nomad, on Linux bin/slipway-runc, bin/slipway-shim-linux-* for containers, and bin/slipway-store-linux-* for Nomad nodes

.PHONY: programs
programs:
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway ./cmd/host
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-memory ./plugins/memory/cmd
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-garden ./plugins/garden/cmd
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-nomad ./plugins/nomad/cmd
	@[ "$$($(GO) env GOOS)" != linux ] || $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-runc ./plugins/runc/cmd

.PHONY: shim
shim:
	@for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-shim-linux-$$arch ./sdk/shim/cmd || exit 1; \
	done

.PHONY: store
store:
	@for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/slipway-store-linux-$$arch ./plugins/nomad/store/cmd || exit 1; \
	done

.PHONY: demo
demo: programs ## run a job of several steps on the memory runtime, with text files in and the result on your disk
	@examples/demo.sh $(BIN)/slipway $(BIN)/demo

.PHONY: deps
deps: packages servers ## install what the tests need and this machine lacks (Debian packages, as root or by sudo; servers, built once)

.PHONY: packages
packages:
	@internal/gate/packages.sh

# Servers that tests talk to are built once for this machine.
.PHONY: servers
servers:
	@GO='$(GO)' plugins/nomad/testserver/build.sh
	@GO='$(GO)' plugins/garden/testserver/build.sh

# What only the soak has a server for.
.PHONY: guardian concourse
guardian: ## build guardian, the Garden server that most installations have, for the soak of plugins/garden (once for this machine, a minute)
	@GO='$(GO)' plugins/garden/testserver/guardian/build.sh

concourse: ## the same for the Garden server of a Concourse worker, with Debian's containerd and network plugins (a few minutes)
	@internal/gate/packages.sh concourse
	@GO='$(GO)' plugins/garden/testserver/concourse/build.sh

.PHONY: tools
tools:
	@cd internal/gate && $(GO) build -o ../../$(BIN)/ . honnef.co/go/tools/cmd/staticcheck

.PHONY: test
test: ## the gate: check, then all tests as far as they say at once whether a change is good
	@$(MAKE) --no-print-directory -j2 --output-sync=target packages tools
	@all=$$($(GO) list ./...) && last=$$($(GO) list $(SERVERS) $(ALONE) $(LONG)) && exec env GORACE='$(GORACE)' $(BIN)/gate -strict \
		-first '$(MAKE) --no-print-directory -j5 --output-sync=target check' -meanwhile '$(MAKE) servers' -- \
		"$(RACE) -short -timeout=25m -p=$(ATONCE) $(TESTFLAGS) $(LONG) $$(echo "$$all" | grep -vxF "$$last" | tr '\n' ' ')" \
		"-short -vet=off -timeout=25m -p=2 $(TESTFLAGS) $(ALONE)" \
		"-short -vet=off -timeout=25m -p=1 $(TESTFLAGS) $(SERVERS)"

# One package, or all of them.
SOAK  ?= ./...
COUNT ?= 1
.PHONY: soak
soak: deps guardian concourse ## the hunt for what fails rarely: all counts, cases and drivers, with and without the race detector; ended, it goes on where it was (SOAK=./host for one package, COUNT=n times)
	@internal/gate/soak.sh '$(GO)' '$(COUNT)' '$(TESTFLAGS)' $(SOAK)

.PHONY: bench
bench: ## run the benchmarks: ratios to a floor of the same run, sizes, and times
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(TESTFLAGS) ./...

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (30s)
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

.PHONY: check
check: check-format proto-check check-code check-gate check-modules ## gofmt, the wire as released, generated code up to date, vet, staticcheck, tidy modules, import layers

.PHONY: check-format check-code check-gate check-modules
check-format:
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }

# Where nothing is cached yet, the compiler and what checks code spend a quarter to half of their time on collecting garbage that goes by itself
# when they end. Tests are left as they are.
tools check-code servers: export GOGC := 400
tools check-code servers: export GOMEMLIMIT := 3GiB

check-code: tools
	$(GO) vet ./...
	$(BIN)/staticcheck ./...
	$(GO) test -run '^TestLayers$$' ./host

check-gate:
	cd internal/gate && $(GO) vet ./... && $(GO) test -parallel 8 ./...

check-modules:
	cd internal/gate && $(GO) mod tidy -diff
	$(GO) mod tidy -diff

.PHONY: proto
proto: ## generate sdk/internal/pb from the published .proto files
	cd sdk/proto/generate && $(GO) run .

# What breaks plugins and hosts that are built already is told here, by name, beside what is not generated anew.
.PHONY: proto-check
proto-check:
	@cd sdk/proto/generate && $(GO) run . -check
	cd sdk/proto/generate && $(GO) vet . && $(GO) test .

.PHONY: released
released: ## at a release, or after a break that is meant: hold later changes of the .proto files against the wire of today
	cd sdk/proto/generate && $(GO) run . -release

.PHONY: clean
clean: ## remove what the build made
	rm -rf $(BIN)
