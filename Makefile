# `make` alone explains the targets. All of them work on a fresh machine with Python >= 3.11, make and git.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := store worker supervisor cli
CODE := $(ROOMS) tests docs/examples tools
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test check format bench docs lock clean

help: ## Explain the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(f"chong needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

build/links/chong: ## (the four packages under their import names, for type checkers)
	@mkdir -p $@
	@for room in $(ROOMS); do ln -sfn ../../../$$room $@/$$room; done

demo: $(VENV)/ready ## Run the main job on this machine's own Python library, with real processes and kills
	$(BIN)/python -m docs.examples.demo

demo-cluster: $(VENV)/ready ## Run three nodes on an embedded PostgreSQL, control them from outside, and lose one
	$(BIN)/python -m docs.examples.cluster

test: $(VENV)/ready ## Run every test, in parallel: three per processor, for most of them wait for processes
	$(BIN)/python -m pytest -n $$(( 3 * $$(nproc) )) --dist worksteal -q

check: $(VENV)/ready build/links/chong ## Format, lint, types, import arrows, generated pages
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	MYPYPATH=build/links $(BIN)/mypy -p chong.store -p chong.worker -p chong.supervisor -p chong.cli
	MYPYPATH=build/links:tools:tests:docs/examples/own_tests $(BIN)/mypy docs/examples tools
	$(BIN)/lint-imports
	$(BIN)/python tools/pages.py --check

format: $(VENV)/ready ## Put the code into its one form
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

docs: $(VENV)/ready ## Render the generated pages anew
	$(BIN)/python tools/pages.py

bench: $(VENV)/ready ## Measure, as ratios in one run; writes build/bench.json
	$(BIN)/python tools/bench.py

lock: $(VENV)/ready ## Write the installed versions to constraints.txt
	@mkdir -p build && { head -1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > build/constraints.new && mv build/constraints.new constraints.txt

clean: ## Remove everything that was built
	rm -rf $(VENV) build demo-output *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
