# Everything a developer runs. Each target sets up what it needs: a fresh machine needs only `make`.
# The first of these that runs and is new enough: a name on the PATH may be a stand-in for a version that is not there.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup test test-all test-threads lint format types demo bench docs clean java

setup: java $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "headgate needs Python 3.11 or newer; install it or set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

java:
	@./scripts/ensure-java

test: setup
	$(BIN)/python -m pytest

test-all: setup
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "slow or not slow" --timeout 1800
	$(MAKE) test-threads

# Threads change every microsecond, so that what can go wrong between two does.
test-threads: setup
	PYTHONFAULTHANDLER=1 HEADGATE_SWITCH_INTERVAL=1e-6 $(BIN)/python -m pytest tests/runtime tests/oracle tests/operators --timeout 1800

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests

format: setup
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

types: setup
	$(BIN)/mypy

# The examples in README and docs run as tests.
docs: setup
	$(BIN)/python -m pytest tests/docs

demo: setup
	$(BIN)/headgate demo

bench: setup
	$(BIN)/headgate bench --all

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
