# Two commands do everything from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
SECRET ?= deploy/secrets/fingerprint
TOKENS = $(dir $(SECRET))gateway-tokens.toml
BASE ?= python:3.11-slim-bookworm
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SBOM := build/apportion.cdx.json
BIN := $(VENV)/bin
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url

# Processes that share no file of tests, as files share brokers. Tests with brokers wait for most of their time, so three
# processes keep two cores busy. Long files come first, in the folders' order.
SIDE_BY_SIDE := --numprocesses 3 --dist loadfile --no-loadscope-reorder

# What needs no framework of agents and no tool beyond requirements/lowest.in. The demo's tables fit by the pinned rich.
# Counters use libraries with exact versions only.
LOWEST := tests/golden tests/conformance $(addprefix tests/unit/,cli client contracts core decisions/analytics decisions/explain \
  decisions/recompose decisions/replay doors/fitting doors/gateway engine/offline settings shell testing) \
  --ignore tests/unit/core/test_certificate.py --ignore tests/unit/doors/fitting/shapes/test_langchain.py

UNIT := $(addprefix tests/unit/,cli client contracts core decisions/explain decisions/mcp decisions/recompose decisions/replay \
  demo doors/fitting doors/gateway engine settings shell testing)

SEEDS ?= 1
KILLS ?= 200
GUARANTEE ?= effectively_once
MINUTES ?= 30

.PHONY: help demo test unit test-lowest check-install dist explore check format schemas requirements image sbom audit licences secret dashboard \
  recording benchmarks check-cluster reliability-sink docs clean

help: ## Show this help
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /  make \1	/' | expand -t 26

demo: $(VENV)/demo.done ## Set up, then run the demo: embedded broker, worker, real sessions
	@$(BIN)/apportion demo

test: $(VENV)/dev.done ## Set up, then run all checks and tests
	@PYTHONPATH=tests $(BIN)/python -m support.forecast
	$(MAKE) --no-print-directory check
	$(BIN)/pytest $(SIDE_BY_SIDE)

unit: $(VENV)/dev.done ## Set up, then run the packages' unit tests that need no broker, in two minutes
	$(BIN)/pytest $(SIDE_BY_SIDE) --quiet -k "not embedded" $(UNIT)

test-lowest: build/lowest.done ## Set up, then run unit and golden tests with the lowest versions of the libraries
	build/lowest/bin/pytest $(SIDE_BY_SIDE) --quiet $(LOWEST)

check-install: $(VENV)/dev.done ## Resolve the package beside other packages, by the index; before each release
	$(BIN)/python -m tools.check_install

explore: $(VENV)/dev.done ## Draw new examples of the property tests for MINUTES, until one fails; before each release
	@end=$$(($$(date +%s) + $(MINUTES) * 60)); while test $$(date +%s) -lt $$end; do \
	  HYPOTHESIS_PROFILE=explore $(BIN)/pytest -q $(SIDE_BY_SIDE) tests/property || exit 1; done

check: $(VENV)/dev.done ## Lint, format, types and architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

format: $(VENV)/dev.done ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

schemas: $(VENV)/dev.done ## Generate schemas/ from the types, and ARCHITECTURE.md's table of packages
	$(BIN)/python -m tools.schemas
	$(BIN)/python -m tools.packages

requirements: | $(VENV)/bin/python ## Pin what pyproject.toml names, with hashes and without addresses
	$(BIN)/pip install --quiet "$$(grep -o 'uv==[0-9.]*' pyproject.toml)"
	for extra in analytics benchmarks client counters demo dev docs mcp otel worker; do $(COMPILE) pyproject.toml --extra $$extra --output-file requirements/$$extra.txt; done
	$(COMPILE) pyproject.toml --output-file requirements/run.txt
	$(COMPILE) pyproject.toml requirements/lowest.in $(addprefix --extra ,analytics client otel worker) \
	  --resolution lowest-direct --output-file requirements/lowest.txt
	$(COMPILE) benchmarks/shell/peers/requirements.in --output-file benchmarks/shell/peers/requirements.txt
	printf 'hatchling==1.33.0\neditables==0.6\n' | $(COMPILE) - --output-file requirements/build.txt
	printf 'cyclonedx-bom==7.5.0\n' | $(COMPILE) - --output-file requirements/sbom.txt
	printf 'pip-audit==2.10.1\n' | $(COMPILE) - --output-file requirements/audit.txt
	printf 'twine==7.0.0\n' | $(COMPILE) - --output-file requirements/twine.txt

image: ## Build the image; BASE=python:3.11-slim-bookworm@sha256:… pins what it stands on
	docker build --file deploy/Dockerfile --tag apportion --build-arg BASE=$(BASE) \
	  --build-arg REVISION=$$(git rev-parse HEAD) --build-arg VERSION=$(VERSION) .

dist: build/twine.done ## Build wheel and sdist, check them, and install them in an empty environment
	rm -rf build/dist
	$(BIN)/uv build --quiet --out-dir build/dist
	build/twine/bin/twine check --strict build/dist/apportion-*
	$(BIN)/python -m tools.check_dist build/dist

sbom: $(SBOM) ## List what the image installs, as CycloneDX (build/apportion.cdx.json)

audit: ## Ask PyPI's database for known vulnerabilities of what the image installs; fails where it cannot be asked
	$(PYTHON) -m venv --clear build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	build/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/worker.txt

licences: $(SBOM) ## Write docs/licences.md: the licences of what the image installs
	$(PYTHON) deploy/licences.py < $(SBOM) > docs/licences.md

docs: $(VENV)/docs.done ## Build the site of all pages, with search, in build/site; a broken link fails
	rm -rf build/pages build/site
	mkdir -p build/pages
	tar -c --exclude node_modules --exclude __pycache__ README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs schemas benchmarks \
	  clients deploy/clickhouse deploy/connect deploy/consumers deploy/kubernetes/README.md | tar -x -C build/pages
	mv build/pages/docs/site/index.md build/pages
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs/site build/pages build/site
	cp -R schemas build/site
	@echo build/site/index.html

secret: ## Make the secrets of docker-compose.yml, once: one turns paths into ids, one is the token of a gateway's caller
	@mkdir -p -m 700 $(dir $(SECRET))
	@test -s $(SECRET) || $(PYTHON) -c 'import secrets; print(secrets.token_hex(32))' > $(SECRET)
	@test -s $(TOKENS) || $(PYTHON) -c 'import secrets; \
	  print("[local]", f"token = \"{secrets.token_hex(32)}\"", "tenants = [\"default\"]", sep="\n")' > $(TOKENS)
	@chmod 444 $(SECRET) $(TOKENS) # the user of the containers must read them; the folder keeps others out

dashboard: $(VENV)/dev.done ## Write the dashboard of Grafana from its code
	$(BIN)/python deploy/grafana/dashboard.py > deploy/grafana/apportion.json

recording: $(VENV)/dev.done ## Record this repository's history as the workload that the package ships
	$(BIN)/python -m tools.recording

benchmarks: $(VENV)/dev.done ## Measure against the floor, peers and the optimum, and search for the dearest request
	$(INSTALL) --require-hashes -r requirements/benchmarks.txt
	$(BIN)/python -m benchmarks

reliability-sink: $(VENV)/dev.done ## Kill a sink at random moments, KILLS times; its tables must equal its lines
	PYTHONPATH=worker:tests $(BIN)/python -m reliability.sink_kills $(KILLS)

reliability-%: $(VENV)/dev.done ## The long forms of docs/reliability.md: SEEDS=1-13 make reliability-kills
	PYTHONPATH=worker:tests $(BIN)/python -m reliability $* --seeds $(SEEDS) --guarantee $(GUARANTEE) \
	  --minutes $(MINUTES)

check-cluster: ## Start the cluster of docker-compose.yml, kill a worker and a broker under load, see that nothing is lost
	$(PYTHON) deploy/check_cluster.py

clean: ## Remove what the other commands made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist

# One environment; the demo needs less than the tests.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.done $(VENV)/dev.done: $(VENV)/%.done: requirements/%.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	@echo 'Installing requirements/$*.txt into $(VENV), which takes a minute or two …'
	@$(INSTALL) --require-hashes -r requirements/$*.txt -r requirements/build.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/demo.done

$(VENV)/docs.done: requirements/docs.txt | $(VENV)/bin/python
	$(INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

build/twine.done: requirements/twine.txt $(VENV)/dev.done
	$(PYTHON) -m venv --clear build/twine
	build/twine/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/twine.txt
	@touch $@

build/lowest.done: requirements/lowest.txt pyproject.toml
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lowest.txt
	build/lowest/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What the image installs, in an environment of its own, and beside it what lists it.
$(SBOM): requirements/worker.txt requirements/sbom.txt pyproject.toml
	$(PYTHON) -m venv --clear build/sbom
	$(PYTHON) -m venv --clear --without-pip build/shipped
	build/sbom/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/sbom.txt
	build/sbom/bin/pip --python build/shipped/bin/python install --quiet --disable-pip-version-check --require-hashes \
	  -r requirements/worker.txt
	build/sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file $@ \
	  build/shipped/bin/python
