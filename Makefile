# Everything a developer runs. Each target sets up what it needs: a fresh machine needs only `make`.
PYTHON ?= $(shell command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup test test-all lint format types demo bench docs clean java

setup: java $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("headgate needs Python 3.11 or newer; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

java:
	@./scripts/ensure-java

test: setup
	$(BIN)/python -m pytest

test-all: setup
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "slow or not slow" --timeout 1800

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
