PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := segaudit-demo

# What tests of the page and of the LaTeX need beside Python: Debian's packages, installed when they are missing.
SYSTEM_PACKAGES := chromium chromium-driver poppler-utils texlive-latex-base texlive-latex-recommended \
	texlive-fonts-recommended lmodern

.PHONY: demo test lint install install-test install-system bench bench-peers clean

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

install-system:
	@if command -v chromium >/dev/null && command -v pdftoppm >/dev/null && command -v pdflatex >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SYSTEM_PACKAGES) >/dev/null; \
	else echo "tests of the page and of the LaTeX are skipped; they need: $(SYSTEM_PACKAGES)"; fi

test: install-test install-system  ## every test
	$(BIN)/python -m pytest -q

lint: install-test  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install  ## the benchmarks, printed as tables
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/battery.py
	$(BIN)/python benchmarks/scale.py

bench-peers: install  ## scoring beside other packages, which go into an environment of their own
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
