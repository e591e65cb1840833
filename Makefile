# everynode: `make demo` shows it, `make test` checks it.

CARGO ?= cargo
KUBECTL ?= kubectl
PYTHON ?= python3
VENV := $(CURDIR)/target/venv
TOOLS := $(CURDIR)/target/tools
# Writes into the program of the image which crates it is made of, which scanners of images read.
AUDITABLE := $(TOOLS)/bin/cargo-auditable
MDBOOK := $(TOOLS)/bin/mdbook
# Tests of one program at a time, with `cargo test`: those that need a sandbox mostly wait. nextest: .config/nextest.toml.
TEST_THREADS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 5 ? 5 : cores)))
# The end-to-end tests of e2e-real: cluster, or beside.
SUITE ?= cluster
# The stories of e2e-nodes: the beginning of their names.
STORY ?=
# Where the image and the files of a release will be, and the files of the repository to which the site's pages refer.
REPOSITORY ?= registry.example/everynode
HOMEPAGE ?= https://example.com/everynode
# Seed of the property tests: a run of `make test` can be repeated. `cargo test` chooses another seed each time.
PROPTEST_RNG_SEED ?= 1

# GOGC=off: a kubectl lives for a tenth of a second, of which its garbage collector took a quarter.
TEST_ENVIRONMENT = GOGC=off KUBECTL=$(KUBECTL) EVERYNODE_PYTHON=$(VENV)/bin/python RUST_TEST_THREADS=$(TEST_THREADS) PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED)

# Browsers that the tests of the dashboard know; EVERYNODE_BROWSER names another one.
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable

.PHONY: demo test quick night e2e-real e2e-nodes lint bench instructions image downloaded release-check site manifest policies tools clean

demo: ## 20 simulated nodes in 3 zones, with fluentd's DaemonSet on them; stays up until Ctrl-C
	$(CARGO) run --quiet --package everynode-cli --no-default-features -- sandbox --nodes 20 --zones 3 --apply examples/fluentd-elasticsearch.yaml

test: tools ## every test but those that take minutes, through real clients too, and the list of rules with their tests
	$(TEST_ENVIRONMENT) $(CARGO) xtask test
	$(CARGO) xtask rules --quiet

quick: ## the tests without the end-to-end tests, the hostile objects and requests, and the simulation; a quarter of the random cases
	$(TEST_ENVIRONMENT) PROPTEST_CASES=8 $(CARGO) xtask test quick

night: tools ## what takes too long for `make test`: hours. STEP="simulation" runs the steps that begin so
	$(TEST_ENVIRONMENT) $(CARGO) xtask night "$(STEP)"

e2e-real: tools ## the end-to-end tests against the cluster of EVERYNODE_E2E_KUBECONFIG, where everynode is the DaemonSet controller; with SUITE=beside the built-in one must be
	@test -n "$$EVERYNODE_E2E_KUBECONFIG" || { echo "error: set EVERYNODE_E2E_KUBECONFIG to the kubeconfig of a cluster that may be tested on" >&2; exit 1; }
	@echo "left out, by file, because each needs a sandbox of its own or no cluster:"
	@for file in e2e/sandbox/*.rs; do echo "  $$file: $$(sed -n '1s,^//! ,,p' $$file)"; done
	EVERYNODE_PYTHON=$(VENV)/bin/python $(CARGO) test --package everynode-e2e -- --skip sandbox:: $(SUITE)::

e2e-nodes: ## stories on real kubelets, which write docs/real-nodes.md: EVERYNODE_NODES names the program that starts the nodes; STORY=rollout:: plays those whose names begin so
	@test -n "$$EVERYNODE_NODES" || { echo "error: set EVERYNODE_NODES to a program that starts nodes; e2e/nodes/fixture.rs says what it has to do" >&2; exit 1; }
	$(CARGO) test --package everynode-e2e -- "nodes::night::$(STORY)" --nocapture --test-threads=1

lint: ## formatting, clippy without a warning, the house rules of ARCHITECTURE.md
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --no-default-features --all-targets -- -D warnings
	$(CARGO) xtask tidy

bench: ## the sizes that the sandbox and the controller must reach, measured
	$(CARGO) bench --workspace

instructions: ## whether the core's hot paths cost what they did (callgrind; skipped without valgrind)
	$(CARGO) xtask instructions

image: $(AUDITABLE) ## the container image as an OCI archive in target/image, without a container engine; TARGET names another machine
	CARGO="$(CARGO)" deploy/image.sh

# The images are built here, unless others have been downloaded into target/image.
IMAGES ?= image
downloaded:
	@ls target/image/everynode-*-linux-*.tar

release-check: $(IMAGES) ## the files of a release in target/release-files, and that they are right; TAG=v0.1.0 checks version and changelog, too
	$(CARGO) xtask release $(REPOSITORY) $(HOMEPAGE) target/image/everynode-*-linux-*.tar
	TAG="$(TAG)" KUBECTL="$(KUBECTL)" deploy/release-check.sh

site: $(MDBOOK) ## docs and the README as a site with search, in target/site/book
	rm -rf target/site && mkdir -p target/site && cp -R docs target/site/src && mv target/site/src/book.toml target/site
	sed -i 's#](\.\./#]($(HOMEPAGE)/blob/main/#g' target/site/src/*.md
	sed -i 's#](\.\./\.\./#]($(HOMEPAGE)/blob/main/#g' target/site/src/*/*.md
	sed -E 's#\]\(docs/#](:#g; s#\]\(([A-Za-z.])#]($(HOMEPAGE)/blob/main/\1#g; s#\]\($(HOMEPAGE)/blob/main/(https?:)#](\1#g; s#\]\(:#](#g' README.md > target/site/src/README.md
	sed -i '2i [everynode](README.md)\n' target/site/src/SUMMARY.md
	$(MDBOOK) build target/site

manifest: ## deploy/everynode.yaml, from deploy/base
	{ sed '/^#/!d' deploy/everynode.yaml; $(KUBECTL) kustomize deploy/base; } > deploy/everynode.yaml.new
	mv deploy/everynode.yaml.new deploy/everynode.yaml
	$(MAKE) policies

policies: ## the definitions of policies, their copy in deploy/everynode.yaml, and docs/policy-reference.md, from the types
	EVERYNODE_UPDATE=replace $(CARGO) test --quiet --package everynode-k8s --test it -- policies::

tools: $(VENV)/ready ## what the tests need beside Rust: kubectl, a browser, pytest and Kubernetes' Python client
	@command -v $(KUBECTL) >/dev/null || { echo "error: the tests need kubectl: apt-get install kubernetes-client, or set KUBECTL=/path/to/kubectl" >&2; exit 1; }
	@if [ "$$EVERYNODE_BROWSER" = none ]; then \
		echo "left out, because EVERYNODE_BROWSER=none: the tests of the dashboard in a browser" >&2; \
	elif ! for browser in $${EVERYNODE_BROWSER:-$(BROWSERS)}; do command -v "$$browser" && break; done >/dev/null; then \
		echo "error: the tests need a browser: apt-get install chromium-headless-shell, or set EVERYNODE_BROWSER=/path/to/chromium (none leaves these tests out)" >&2; exit 1; \
	fi

$(AUDITABLE):
	$(CARGO) install --quiet --locked --root $(TOOLS) cargo-auditable@0.7.7

$(MDBOOK):
	$(CARGO) install --quiet --locked --root $(TOOLS) mdbook@0.5.4

$(VENV)/ready: e2e/python/requirements.txt
	@mkdir -p $(dir $(VENV))
	@$(PYTHON) -m venv $(VENV) || { echo "error: the tests need Python with venv: apt-get install python3 python3-venv" >&2; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement e2e/python/requirements.txt
	@touch $@

clean:
	$(CARGO) clean
