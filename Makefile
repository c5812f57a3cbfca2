PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := segaudit-demo

.PHONY: demo test lint install install-test bench clean

$(VENV)/.installed: pyproject.toml setup.py src/segaudit/metrics/_kernel.c
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "segaudit needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

install: $(VENV)/.installed

install-test: $(VENV)/.installed-test

demo: install  ## a simulated cohort through the whole line
	$(BIN)/segaudit demo -o $(DEMO)

test: install-test  ## every test
	$(BIN)/python -m pytest -q

lint: install-test  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install-test  ## the benchmarks, printed as tables
	$(BIN)/python benchmarks/statistics.py

clean:
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
