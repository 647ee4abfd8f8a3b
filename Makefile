# Everything a developer runs. `make help` lists it; each target sets the machine up first, which takes
# no time once done.
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)
# Compiled modules are kept, whatever the caller wants elsewhere: the tests start hundreds of processes of the project
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest
# Tests that need nothing but Python, most in less than half a second. Four processes on two cores too: some tests wait for
# threads, and shares of files (tests/scheduling.py) are never quite equal.
FAST := -m "not real and not long" -n 4 --deal-files
# tests with real brokers, JVMs and Spark: three processes, since each starts clusters of its own, and waits for them; a
# file's tests run in one of them, as they share what the file has started
REAL := -m "real and not long" -n 3 --dist loadfile --no-loadscope-reorder
# what tries less otherwise: tests/sweeps.py
SWEEPS := -m "not long and (hypothesis or sweep or not real)" -n 4
THOROUGH := --hypothesis-profile thorough
# Extra arguments: make test-fast ARGS="-k metadata"
ARGS ?=
# How long make fuzz goes on: make fuzz SECONDS=600
SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-long check check-code check-names bench bench-facts bench-memory bench-profile bench-recorder bench-replay bench-spark bench-wire fuzz docs release site

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup:  ## the virtual environment and the system packages that are missing
	@VENV="$(VENV)" scripts/setup

demo: setup  ## an embedded cluster, the proxy, real clients, the capture, its analysis, replay and report, in about two minutes
	@$(BIN)/kafka-wiretap demo $(ARGS)

test: check  ## the checks and the whole suite, the fast tests first (about a quarter of an hour on 2 cores)
	$(PYTEST) $(FAST) $(ARGS)
	$(PYTEST) $(REAL) $(ARGS)

test-fast: setup  ## the tests that need no broker and no JVM, most in less than half a second each (about 2 minutes)
	$(PYTEST) $(FAST) $(ARGS)

test-long: setup  ## soaks, full sweeps, and properties with all their examples
	$(PYTEST) -m long $(THOROUGH) --timeout 3600 $(ARGS)
	$(PYTEST) $(SWEEPS) $(THOROUGH) $(ARGS)

check: setup  ## lint, format, types, which room may import which, and names of tests that are the same in every process
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-names check-code

check-code:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check-rooms

check-names:
	$(BIN)/python scripts/check-collection

bench: setup  ## ratios to a direct connection, a bare relay and Kroxylicious, in one run
	@$(BIN)/python -m bench $(ARGS)

bench-memory: setup  ## what stays resident: idle, busy, over a soak (ARGS="--soak 600")
	@$(BIN)/python -m bench.memory $(ARGS)

bench-profile: setup  ## what an exchange costs, in system calls, waits, steps and modules; the peer's beside it
	@$(BIN)/python -m bench.profile $(ARGS)

bench-recorder: setup  ## recording small exchanges for long, and the compactor's speed, in one run (ARGS="--only compactor")
	@$(BIN)/python -m bench.recorder $(ARGS)

bench-replay: setup  ## the replay's speed, lateness and memory; a plain loop that writes the same frames, in one run
	@$(BIN)/python -m bench.replay $(ARGS)

bench-wire: setup  ## the wire codec's speed as ratios to kafka-python, kio and aiokafka, in one run
	@$(BIN)/python -m bench.wire $(ARGS)

bench-spark: setup  ## the Spark toolbox against a plain groupBy and kafka-python in mapInPandas, in one run
	@$(BIN)/python -m bench.spark $(ARGS)

bench-facts: setup  ## what facts cost against compacting, and what they spare `inspect`, in one run (ARGS="--megabytes 1000")
	@$(BIN)/python -m bench.facts $(ARGS)

fuzz: setup  ## bytes that mean harm against codec, connections and listeners, SECONDS (60) each, guided by coverage
	$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

release: setup  ## sdist, wheel and bill of materials (CycloneDX) of git's HEAD, in dist/
	@VENV="$(VENV)" scripts/release $(ARGS)

docs: setup  ## write what is generated: docs/apis.md, findings.md, metrics.md, settings.md, tables.md; the dashboards
	@$(BIN)/kafka-wiretap wire list --markdown > docs/apis.md
	@$(BIN)/kafka-wiretap sql . tables --markdown > docs/tables.md
	@$(BIN)/kafka-wiretap report --rules > docs/findings.md
	@$(BIN)/kafka-wiretap config reference > docs/settings.md
	@$(BIN)/kafka-wiretap config metrics > docs/metrics.md
	@$(BIN)/python -m dashboards

site: setup  ## the documentation as a site, in site/; a warning is an error. `python -m http.server -d site` shows it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
