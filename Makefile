# Everything that a fresh machine needs: GNU make and Python 3.11 or newer.
#
#   make plan     make the environment and find the best plan of PROBLEM, with a proof
#   make test     make the development environment, run every check and the tests
#   make bench    print every figure of the benchmark (BENCH="--only help")

PROBLEM ?= instances/problems/llama3-405b-16k-h100.toml
ARGS ?=
BENCH ?=
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)

bin := $(VENV)/bin
pip := $(bin)/python -m pip install --quiet --disable-pip-version-check

.PHONY: plan test slow lint bench clean
.DEFAULT_GOAL := plan

plan: $(VENV)/.installed
	$(bin)/planner solve $(PROBLEM) $(ARGS)

test: lint
	$(bin)/python -m pytest -m "not slow" -n 2

slow: $(VENV)/.installed-dev
	$(bin)/python -m pytest -m slow

lint: $(VENV)/.installed-dev
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports

bench: $(VENV)/.installed-dev
	$(bin)/python -m benchmarks $(BENCH)

# The stamps make a second call quick; a changed pyproject.toml installs again.
$(VENV)/.installed: pyproject.toml | $(bin)/python
	$(pip) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(bin)/python
	$(pip) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(bin)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "make: Python 3.11 or newer is needed (found: $(or $(PYTHON),none)); name one by PYTHON=..." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
