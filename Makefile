# The front door. `make` alone lists what there is; everything is written in TypeScript behind npm scripts and runs on
# the Node 26 that package-lock.json pins, whatever Node the machine has.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# npm itself runs on the machine's Node, because `npm ci` removes the pinned one before it installs it again.
machine_path := $(PATH)
export PATH := $(CURDIR)/node_modules/.bin:$(machine_path)

# npm writes this file last, so an interrupted installation is repeated.
installed := node_modules/.package-lock.json

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(installed) ## A cluster of two nodes, the operator installed on it by Helm, and an Echo that prints Hola, 世界!
	@node tools/demo/main.ts up

.PHONY: clean-demo
clean-demo: $(installed) ## Remove all that the demo made, the binaries in the cache excepted
	@node tools/demo/main.ts down

##@ Tests

.PHONY: test
test: $(installed) ## What every change must pass: lint, types, generated files, unit, chart, integration, package, kinds, e2e
	@node test/run.ts

.PHONY: lint
lint: $(installed) ## Biome: format, lint, and the direction of imports
	@node test/run.ts lint

.PHONY: types
types: $(installed) ## TypeScript's own check
	@node test/run.ts types

.PHONY: unit
unit: $(installed) ## Unit tests: no cluster, no network
	@node test/run.ts unit

.PHONY: chart
chart: $(installed) ## The chart: helm lint, its rendered manifests, and releases on an API server
	@node test/run.ts chart

.PHONY: integration
integration: $(installed) ## Integration tests: a real API server, etcd and kube-controller-manager
	@node test/run.ts integration

.PHONY: package
package: $(installed) ## The runtime's npm package in an empty project on Node 24, and what the guide shows done with it
	@node test/run.ts package

.PHONY: kinds
kinds: $(installed) ## Each kind as its users see it: a real cluster with nodes, pods and volumes (Linux, root)
	@node test/run.ts kinds

.PHONY: e2e
e2e: $(installed) ## The operator's life: installed, upgraded, its nodes lost, high availability (Linux, root)
	@node test/run.ts e2e

.PHONY: quick
quick: $(installed) ## A first verdict in about a minute: lint, types, the unit tests of what changed since SINCE (main)
	@node test/run.ts --quick "$${SINCE:-main}"

.PHONY: test-nightly
test-nightly: $(installed) ## What takes too long for every change: random faults, many objects, lost nodes; SUITE= for one
	@node test/run.ts --nightly $(SUITE)

.PHONY: soak
soak: $(installed) ## Random faults for SOAK_MINUTES (10): memory stays flat, and the store is the cluster (Go)
	@node test/soak.ts

##@ Measure

.PHONY: bench
bench: $(installed) ## The operator beside three peers on one API server (Linux, root, Go, Rust); QUICK=1: within 5 minutes
	@node bench/main.ts

##@ Build

.PHONY: generate
generate: $(installed) ## Write crds/ and the chart's copy of them from src/api
	@npm run --silent generate

.PHONY: format
format: $(installed) ## Let Biome format the tree
	@npm run --silent format

.PHONY: binaries
binaries: $(installed) ## Build the cluster's programs (Kubernetes, etcd, containerd, Helm ...) into the cache
	@node tools/programs/main.ts

.PHONY: build
build: $(installed) ## Bundle the operator into dist/
	@npm run --silent build

.PHONY: image
image: $(installed) ## Build the operator's and the pet store's image without a registry (Linux, root; with one: docker build .)
	@node tools/release/image.ts
	@node tools/release/image.ts petstore

##@ Housekeeping

.PHONY: clean
clean: ## Remove what is built in the tree: dist/, coverage/, node_modules/
	rm -rf dist coverage node_modules

# Node 26's official binary needs libatomic, which a minimal Debian does not have.
$(installed): package-lock.json
	@echo "Installing what package-lock.json names (npm ci)"
	@PATH="$(machine_path)" npm ci --loglevel=error
	@if ! node --version > /dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libatomic1; \
	  else \
	    echo "Node 26 does not start here: it needs the library libatomic.so.1 (Debian, Ubuntu: apt-get install libatomic1; Fedora: dnf install libatomic)." >&2; \
	    exit 1; \
	  fi; \
	fi
	@if [ "$$(node --print 'Number.parseInt(process.versions.node) >= 24')" != true ]; then \
	  echo "No Node is pinned for this platform, and its own is $$(node --version): install Node 24 or later." >&2; \
	  exit 1; \
	fi
	@touch $@
