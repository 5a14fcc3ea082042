# Two commands for a newcomer: `make demo` and `make test`. Both set up `.venv` by themselves, once.
# Needs Python >= 3.11, git and make; everything else comes from requirements.lock.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-faults test-gpu bench check lint lock clean

SUITABLE := import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	"$$p" -c '$(SUITABLE)' >/dev/null 2>&1 && echo "$$p" && break; done)
BIN := .venv/bin
ARGS ?=
PYTEST := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest
QUICK := not slow and not gpu and not faults and not browser

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
	while IFS='|' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

setup: ## create or refresh .venv from requirements.lock
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 to 3.14 with its venv module was found: install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; fi
	@"$(PYTHON)" scripts/setup_venv.py

demo: setup ## run the whole pipeline on the demo market and print the verdict
	@$(BIN)/alpha run --demo $(ARGS); code=$$?; if [ $$code -ne 0 ]; then \
		echo "alpha run ended with exit code $$code (3: the verdict is FAIL, 1: an error, 2: wrong usage); make itself ends with 2 for any of them." >&2; \
		exit $$code; fi

test: setup ## run the tests, except slow, gpu, faults and browser ones
	@$(PYTEST) -n 2 --dist loadfile -m "$(QUICK)" $(ARGS)

test-slow: setup ## run the slow tests
	@$(PYTEST) -m "slow and not gpu" $(ARGS) || [ $$? -eq 5 ]

test-faults: setup ## kill processes and fill disks, for real (minutes)
	@$(PYTEST) -m "faults and not gpu" $(ARGS) || [ $$? -eq 5 ]

test-gpu: setup ## run the tests that need an accelerator
	@$(PYTEST) -m gpu $(ARGS) || [ $$? -eq 5 ]

bench: setup ## measure the claims of docs/benchmarks.md (minutes; needs 15 GB of disk)
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks $(ARGS)

lint: setup ## check style, formatting, types, import rules and the lock file
	@failed=; for tool in "ruff check ." "ruff format --check ." "pyright" "lint-imports" "python scripts/lock.py --check"; do \
		echo "== $$tool"; $(BIN)/$$tool || failed="$$failed, $$tool"; done; \
	if [ -n "$$failed" ]; then echo "not in order: $${failed#, }" >&2; exit 1; fi

check: lint test ## lint, then test: what must be green before a change lands

lock: setup ## write requirements.lock from the versions in .venv
	@$(BIN)/python scripts/lock.py

clean: ## remove caches and build products (not .venv, data or databases)
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache ./*.egg-info
	@find alpha_core alpha_pipeline tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
