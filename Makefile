# Every target creates and reuses .venv by itself. Needs only Python 3.11+, Java 17 and make.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
DATA ?= .run
PEER ?=
BENCH_ARGS ?=

.PHONY: help run test check lint bench format clean
.DEFAULT_GOAL := help

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

.venv/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "nsqlake needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar=on -e '.[dev,spark]'
	@touch $@

run: .venv/.installed  ## start the platform with sample data (so far: nsqd and a generator)
	$(BIN)/nsqlake demo --data-path $(DATA)

test: lint  ## install what is needed, run every check and every test
	$(BIN)/python -m pytest tests -n 2 -m 'not slow and not interop and not spark'
	$(BIN)/python -m pytest tests -m '(slow or interop) and not spark'
	$(BIN)/python -m pytest tests -m 'spark and not unsteady'

check: lint  ## format, lint, types, layers, fast tests: under two minutes
	$(BIN)/python -m pytest tests -n 2 -m 'not slow and not interop and not spark'

lint: .venv/.installed  ## format, lint, types and layers only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.installed  ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed  ## compare with a peer: make bench PEER=/path/to/nsqd [BENCH_ARGS=...]
	$(BIN)/python -m bench.compare $(if $(PEER),--peer-nsqd $(PEER)) $(BENCH_ARGS)

clean:  ## remove what make made
	rm -rf .venv .run .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
