# `make` lists the targets. They run TypeScript programs on the Node 26 that package-lock.json pins, whichever Node the machine
# has.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# npm itself runs on the machine's Node, because `npm ci` removes the pinned one before it reinstalls it.
machine_path := $(PATH)
export PATH := $(CURDIR)/node_modules/.bin:$(machine_path)

# npm writes this file last, so make repeats an interrupted installation.
installed := node_modules/.package-lock.json

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(installed) ## Bring up a cluster with two nodes, install the operator with Helm, and run an Echo that prints Hola, 世界!
	@node tools/demo/main.ts up

.PHONY: clean-demo
clean-demo: $(installed) ## Remove everything from the demo except the programs in the cache
	@node tools/demo/main.ts down

##@ Tests

.PHONY: test
test: $(installed) ## Run every suite that a change must pass: lint, types, generated, unit, chart, integration, package, kinds, e2e
	@node test/run.ts

.PHONY: lint
lint: $(installed) ## Check format, lint rules and circles of imports with Biome, and find what nothing uses with knip
	@node test/run.ts lint

.PHONY: types
types: $(installed) ## Check the types with TypeScript
	@node test/run.ts types

.PHONY: unit
unit: $(installed) ## Run the unit tests, which need no cluster and no network
	@node test/run.ts unit

.PHONY: chart
chart: $(installed) ## Test the chart: helm lint, rendered manifests, and releases on an API server
	@node test/run.ts chart

.PHONY: integration
integration: $(installed) ## Run the integration tests with a real API server, etcd and kube-controller-manager
	@node test/run.ts integration

.PHONY: package
package: $(installed) ## Test the npm packages in an empty project on Node 24, with the code of the guide
	@node test/run.ts package

.PHONY: kinds
kinds: $(installed) ## Test each kind on a real cluster with nodes, pods and volumes (Linux, root)
	@node test/run.ts kinds

.PHONY: e2e
e2e: $(installed) ## Test installation, upgrades, lost nodes and high availability on a real cluster (Linux, root)
	@node test/run.ts e2e

.PHONY: quick
quick: $(installed) ## Run lint, types, and the unit tests of files changed since SINCE (main), in about a minute
	@node test/run.ts --quick "$${SINCE:-main}"

.PHONY: test-nightly
test-nightly: $(installed) ## Run the suites that take too long for every change: random faults, many objects, lost nodes; SUITE= selects one
	@node test/run.ts --nightly $(SUITE)

.PHONY: soak
soak: $(installed) ## Check for SOAK_MINUTES (10) that memory stays flat and the store equals the cluster under random faults
	@node test/soak.ts

.PHONY: perturb
perturb: $(installed) ## Crash the operator at each of its writes, and let its views lag; PLAN='echo/create write 1 unsent' runs only that
	@node test/perturb.ts

.PHONY: mutate
mutate: $(installed) ## Change every property of every kind's spec, and compare with new objects; PLAN='Echo/message' runs only that
	@node test/mutate.ts

.PHONY: explore
explore: $(installed) ## Run scenarios in a simulation under random schedules for MINUTES (40); SCENARIO='echo' runs only those
	@node test/explore.ts

.PHONY: seeded-bugs
seeded-bugs: $(installed) ## Show that `explore`, `perturb` and `mutate` find bugs: add each of some bugs to a copy of the source; BUG='Pet' tries only those, WAY='simulation' only in a simulation
	@node test/seeded-bugs.ts

##@ Measure

.PHONY: bench
bench: $(installed) ## Compare the operator with three peers on one API server (Linux, root, Go, Rust); PART=cache measures only that part, in at most 15 minutes; QUICK=1 all in 5
	@node bench/main.ts $(PART)

##@ Build

.PHONY: generate
generate: $(installed) ## Write the generated files: CRDs, the chart's rules, tables in docs, protobuf code, merge rules
	@npm run --silent generate

.PHONY: format
format: $(installed) ## Format all files with Biome
	@npm run --silent format

.PHONY: binaries
binaries: $(installed) ## Build the cluster's programs (Kubernetes, etcd, containerd, Helm ...) into the cache; ONLY=etcd,kube-apiserver builds only these
	@node tools/programs/main.ts $(ONLY)

.PHONY: build
build: $(installed) ## Bundle the operator into dist/
	@npm run --silent build

.PHONY: site
site: $(installed) ## Build the site from docs/ and docstrings into site/dist/html, in about two minutes
	@npm run --silent --workspace site build

.PHONY: image
image: $(installed) ## Build the images of the operator and the pet store without a registry (Linux, root)
	@node tools/release/image.ts
	@node tools/release/image.ts petstore

##@ Housekeeping

.PHONY: clean
clean: ## Remove dist/, site/dist/, coverage/ and node_modules/
	rm -rf dist coverage node_modules site/dist

# Node 26's official binary needs libatomic, which a minimal Debian does not have.
$(installed): package-lock.json
	@echo "Installing the packages in package-lock.json (npm ci)"
	@PATH="$(machine_path)" npm ci --ignore-scripts --loglevel=error
	@if ! node --version > /dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libatomic1; \
	  else \
	    echo "Node 26 does not start, because the library libatomic.so.1 is missing. Install it (Debian, Ubuntu: apt-get install libatomic1; Fedora: dnf install libatomic)." >&2; \
	    exit 1; \
	  fi; \
	fi
	@if [ "$$(node --print 'Number.parseInt(process.versions.node) >= 24')" != true ]; then \
	  echo "The project pins no Node for this platform, and the installed Node is $$(node --version). Install Node 24 or later." >&2; \
	  exit 1; \
	fi
	@touch $@
