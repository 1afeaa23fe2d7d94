# Everything a person needs: `make demo` and `make test` do all of their own set-up.
PYTHON ?= python3
PROFILE ?= cpu
BIN := .venv/bin
ARGS ?=

.PHONY: help setup models demo serve test check bench lock

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup:  ## Make or refresh .venv from the lock file; PROFILE=gpu for GPUs
	@$(PYTHON) scripts/bootstrap.py $(PROFILE)

models: setup
	@$(BIN)/orchestrator models build

demo: models  ## Start a fleet, route a dozen requests, compare, stop; ARGS="--json FILE"
	@$(BIN)/orchestrator demo $(ARGS)

serve: models  ## Start the local fleet in the foreground; ARGS=clusters/other.yaml
	@$(BIN)/orchestrator serve $(ARGS)

test: models check  ## Run all tests; ARGS="-m 'not engine'" for fewer
	@$(BIN)/pytest $(ARGS)

check: setup  ## Format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: models  ## Measure the router's decision
	@$(BIN)/orchestrator bench decision $(ARGS)

lock: setup  ## Resolve the lock files anew
	@$(PYTHON) scripts/bootstrap.py lock
