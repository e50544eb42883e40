# Everything a developer runs. Each target sets up what it needs: a fresh machine needs only `make`.
# The first of these that runs and is new enough: a name on the PATH may stand for a version that is not installed.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
STAMP := .venv/.installed
DELTA_SPARK ?= 4.2.0
DELTA = .venv-delta-$(DELTA_SPARK)
# One process a core, each with its own Spark session; a process that is done takes tests from another.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: setup test test-all test-threads cluster delta lint format types demo bench docs clean java kafka kafka-stop

setup: java $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "headgate needs Python 3.11 or newer; install it or set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

java:
	@./scripts/ensure-java

# What must pass before a change lands. Spark is asked again only about answers that are not recorded (tests/recorded.py).
test: setup
	$(PYTEST)

# Also the slow tests, everything asked of Spark again, and more generated examples; all but those of `make cluster`
# and `make delta`.
test-all: setup
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "slow or not slow" --timeout 3600 --ignore tests/cluster --ignore tests/delta
	$(MAKE) test-threads

# Threads switch every microsecond, so that races happen that are rare otherwise.
test-threads: setup
	PYTHONFAULTHANDLER=1 HEADGATE_SWITCH_INTERVAL=1e-6 $(PYTEST) tests/runtime tests/oracle tests/operators --timeout 3600

# Tests on a standalone cluster of Spark, which they start on this machine: a master and two workers.
cluster: setup
	$(BIN)/python -m pytest -m "slow or not slow" --timeout 3600 tests/cluster

# Delta needs a Spark that it is published for, which may be older than the pinned one: an environment of its own.
delta: java $(DELTA)/.installed
	$(DELTA)/bin/python -m pytest -m "slow or not slow" --timeout 3600 tests/delta

$(DELTA)/.installed: pyproject.toml constraints.txt
	test -x $(DELTA)/bin/python || $(PYTHON) -m venv $(DELTA)
	grep -v -e '^pyspark==' -e '^py4j==' constraints.txt > $(DELTA)/constraints.txt
	$(DELTA)/bin/python -m pip install --quiet --disable-pip-version-check -c $(DELTA)/constraints.txt \
	  -e '.[dev]' 'pyspark==$(DELTA_SPARK)'
	@touch $(DELTA)/.installed

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests

format: setup
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

types: setup
	$(BIN)/mypy

# A Kafka broker on port 9092 of this machine, for trying things out; its jars are fetched by Maven.
kafka: setup
	$(BIN)/python -m headgate.feeder.broker start

kafka-stop: setup
	$(BIN)/python -m headgate.feeder.broker stop

# Runs the examples in README and docs.
docs: setup
	$(BIN)/python -m pytest tests/docs

demo: setup
	$(BIN)/headgate demo

bench: setup
	$(BIN)/headgate bench --all

clean:
	rm -rf .venv .venv-delta-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
