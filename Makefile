# Everything a developer runs. Each target sets up what it needs: a fresh machine needs only `make`.
# The first of these that runs and is new enough: a name on the PATH may stand for a version that is not installed.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
STAMP := .venv/.installed
# The newest versions of Spark that Delta and Iceberg are published for.
DELTA_SPARK ?= 4.2.0
ICEBERG_SPARK ?= 4.1.4
# One process a core, each with its own Spark session; a process that is done takes tests from another.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: setup test test-all test-threads cluster delta iceberg lint format types demo bench docs clean java kafka kafka-stop kafka-test

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

# Also the slow tests, everything asked of Spark again, and more generated examples; all but those of `make cluster`,
# `make delta` and `make iceberg`.
test-all: setup
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "slow or not slow" --timeout 3600 \
	  --ignore tests/cluster --ignore tests/delta --ignore tests/iceberg
	$(MAKE) test-threads

# Threads switch every microsecond, so that races happen that are rare otherwise.
test-threads: setup
	PYTHONFAULTHANDLER=1 HEADGATE_SWITCH_INTERVAL=1e-6 $(PYTEST) tests/runtime tests/oracle tests/operators --timeout 3600

# Tests on a standalone cluster of Spark, which they start on this machine: a master and two workers.
cluster: setup
	$(BIN)/python -m pytest -m "slow or not slow" --timeout 3600 tests/cluster

# Delta and Iceberg need a Spark that they are published for, which may be older than the pinned one: each version has
# an environment of its own.
delta: ENVIRONMENT = .venv-spark-$(DELTA_SPARK)
delta: .venv-spark-$(DELTA_SPARK)/.installed
iceberg: ENVIRONMENT = .venv-spark-$(ICEBERG_SPARK)
iceberg: .venv-spark-$(ICEBERG_SPARK)/.installed
delta iceberg: java
	$(ENVIRONMENT)/bin/python -m pytest -m "slow or not slow" --timeout 3600 tests/$@

.venv-spark-%/.installed: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	grep -v -e '^pyspark==' -e '^py4j==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt \
	  -e '.[dev]' 'pyspark==$*'
	@touch $@

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

# Rows from Kafka to Kafka through 21 queries, compared with Spark SQL, while the broker stops and the driver is killed.
# With 5 million rows it takes 10 GB of memory and, on two cores, minutes: make kafka-test ROWS=5000000
ROWS ?= 100000
kafka-test: setup
	HEADGATE_KAFKA_ROWS=$(ROWS) $(BIN)/python -m pytest -m slow -s --timeout 14000 tests/kafka/test_kafka_to_kafka.py

# Runs the examples in README and docs.
docs: setup
	$(BIN)/python -m pytest tests/docs

demo: setup
	$(BIN)/headgate demo

bench: setup
	$(BIN)/headgate bench --all

clean:
	rm -rf .venv .venv-spark-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
