# The list of targets is the developer's manual: `make help`.
SHELL   := /bin/bash
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
SHARED  ?= ../shared
PYTEST  := $(BIN)/pytest

# What runs on the real kube-apiserver as it does on ours. Each suite has a server of its own: no
# controller cleans up there, and a definition does not go while objects with finalizers are left.
ON_REAL_SERVER := tests/testing tests/runtime tests/webhook tests/adversity

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-record test lint types imports check recordings conformance e2e suites bench generate clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

venv: $(VENV)/.ready ## Make .venv with kubewright, the operators, kubectl and the test tools

$(VENV)/.ready: pyproject.toml constraints.txt operators/memcached/pyproject.toml operators/webapp/pyproject.toml operators/postgres/pyproject.toml operators/mysql/pyproject.toml operators/database_objects/pyproject.toml tools/kubectl.py
	@$(PYTHON) tools/system_packages.py python3-venv
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e operators/memcached -e operators/webapp -e operators/postgres -e operators/mysql -e operators/database_objects
	@$(BIN)/python tools/kubectl.py 32 $(VENV)/kubectl-32
	@$(BIN)/python tools/kubectl.py 34 $(VENV)/kubectl-34
	@$(BIN)/python tools/kubectl.py 37 $(VENV)/kubectl-37
	@touch $@

demo: venv ## Play the main job end to end: a real memcached pool on a local control plane
	@$(PYTHON) tools/system_packages.py --optional memcached bubblewrap iproute2
	@$(BIN)/python demo/play.py

demo-record: venv ## Play the demo and write what it prints to docs/demo.txt
	@$(PYTHON) tools/system_packages.py --optional memcached bubblewrap iproute2
	@$(BIN)/python demo/play.py | tee docs/demo.txt; exit $${PIPESTATUS[0]}

test: venv ## Run all tests
	@$(PYTHON) tools/system_packages.py --optional memcached bubblewrap iproute2
	@$(PYTEST)

lint: venv ## Check style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: venv ## Check types, of tests too
	@$(BIN)/mypy src operators/memcached/src operators/webapp/src operators/postgres/src operators/mysql/src operators/database_objects/src tests operators/memcached/tests operators/webapp/tests operators/postgres/tests operators/mysql/tests operators/database_objects/tests tools demo benchmarks conformance

imports: venv ## Check that rooms import one way
	@$(BIN)/lint-imports

check: lint types imports test ## Run everything that needs no Go

recordings: venv ## Show where our API server differs from recorded answers of the real one
	@$(BIN)/python -m conformance check

conformance: venv ## Run all that needs a cluster on the real Kubernetes (needs Go; builds it once)
	@$(PYTHON) tools/system_packages.py --optional memcached bubblewrap iproute2
	@$(BIN)/python tools/real_cluster.py --shared $(SHARED) || { [ $$? = 3 ] && exit 0; exit 1; }; \
	export KUBEWRIGHT_SHARED=$(SHARED); failed=0; \
	$(BIN)/python tools/on_kube_apiserver.py $(BIN)/python -m conformance check || failed=1; \
	$(BIN)/python -m conformance.sessions check --server real || failed=1; \
	for suite in $(ON_REAL_SERVER); do \
		$(BIN)/python tools/on_kube_apiserver.py $(PYTEST) $$suite || failed=1; done; \
	$(PYTEST) tests/acceptance --cluster real || failed=1; \
	$(PYTEST) tests/acceptance --cluster mixed || failed=1; \
	exit $$failed

e2e: venv ## Run acceptance tests and recorded pods on a whole real cluster (needs root and Go)
	@$(PYTHON) tools/system_packages.py runc containernetworking-plugins iptables conntrack socat debootstrap
	@$(BIN)/python tools/real_cluster.py --shared $(SHARED) --node || { [ $$? = 3 ] && exit 0; exit 1; }; \
	export KUBEWRIGHT_SHARED=$(SHARED); failed=0; \
	$(BIN)/python -m tests.acceptance.clusters whole $(BIN)/python -m conformance check --cases nodes || failed=1; \
	$(PYTEST) tests/acceptance --cluster whole || failed=1; \
	exit $$failed

suites: venv ## Run test suites of kopf, lightkube, kr8s and the official client (needs the network)
	@$(PYTHON) tools/system_packages.py --optional bubblewrap iproute2
	@$(BIN)/python tools/foreign_suites.py $(SUITES)

bench: venv ## Measure servers, operators and the cache beside their peers and print tables
	@KUBEWRIGHT_SHARED=$(SHARED) $(BIN)/python benchmarks/first_light.py
	@$(BIN)/python benchmarks/cache.py
	@KUBEWRIGHT_SHARED=$(SHARED) $(BIN)/python benchmarks/server.py
	@KUBEWRIGHT_SHARED=$(SHARED) $(BIN)/python -m benchmarks.pods
	@KUBEWRIGHT_SHARED=$(SHARED) $(BIN)/python benchmarks/peers.py $(BENCH)

generate: venv ## Write the generated files: the CRDs of the operators
	@$(BIN)/kubewright generate crd memcached_operator > operators/memcached/config/crd.yaml
	@$(BIN)/kubewright generate crd mysql_operator > operators/mysql/config/crd.yaml
	@$(BIN)/kubewright generate crd postgres_operator > operators/postgres/config/crd.yaml
	@$(BIN)/kubewright generate crd webapp_operator > operators/webapp/config/crd.yaml

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
