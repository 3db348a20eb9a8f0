# Two commands do everything from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url

SEEDS ?= 1
GUARANTEE ?= effectively_once

.PHONY: help demo test check format schemas requirements recording benchmarks clean

help: ## Show this help
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /  make \1	/' | expand -t 22

demo: $(VENV)/demo.done ## Set up, then run the demo: embedded broker, worker, real sessions
	$(BIN)/apportion demo

test: $(VENV)/dev.done ## Set up, then run all checks and tests
	$(MAKE) --no-print-directory check
	$(BIN)/pytest

check: $(VENV)/dev.done ## Lint, format, types and architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.done ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

schemas: $(VENV)/dev.done ## Generate schemas/ from the types
	$(BIN)/python -m apportion.schemas

requirements: | $(VENV)/bin/python ## Pin what pyproject.toml names, with hashes and without addresses
	$(BIN)/pip install --quiet "$$(grep -o 'uv==[0-9.]*' pyproject.toml)"
	for extra in benchmarks demo dev; do $(COMPILE) pyproject.toml --extra $$extra --output-file requirements/$$extra.txt; done
	$(COMPILE) pyproject.toml --output-file requirements/run.txt
	printf 'hatchling==1.33.0\neditables==0.6\n' | $(COMPILE) - --output-file requirements/build.txt

recording: $(VENV)/dev.done ## Record this repository's history as the workload that the package ships
	$(BIN)/python -c 'from pathlib import Path; from apportion.workload.recording import record; \
	  record(Path("."), Path("worker/apportion/workload/recorded.jsonl.xz"), max_requests=300)'

benchmarks: $(VENV)/dev.done ## Measure against the floor, peers and the optimum, and search for the dearest request
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/benchmarks.txt
	$(BIN)/python -m benchmarks

reliability-%: $(VENV)/dev.done ## The long forms of docs/reliability.md: SEEDS=1-13 make reliability-kills
	PYTHONPATH=worker:tests $(BIN)/python -m reliability $* --seeds $(SEEDS) --guarantee $(GUARANTEE)

clean: ## Remove what the other commands made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist

# One environment; the demo needs less than the tests.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.done: requirements/demo.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/demo.txt -r requirements/build.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/dev.done: requirements/dev.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt -r requirements/build.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/demo.done
