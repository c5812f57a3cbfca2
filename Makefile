PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := segaudit-demo
STUDY_MINI := segaudit-study-mini

# In one command with nnunetv2 these give the build for processors; without the second, pip fetches gigabytes of CUDA.
CPU_TORCH := "torch==2.13.0" "torchvision==0.28.0"

# What tests of the page, of the LaTeX and of SLURM need beside Python: Debian's packages, installed when they are missing.
SYSTEM_PACKAGES := chromium chromium-driver poppler-utils texlive-latex-base texlive-latex-recommended \
	texlive-fonts-recommended lmodern slurmctld slurmd slurm-client munge

.PHONY: demo study-mini test lint install install-test install-system bench bench-peers clean

$(VENV)/.installed: pyproject.toml setup.py src/segaudit/metrics/_kernel.c
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "segaudit needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CPU_TORCH) -e ".[test,study]"
	touch $@

install: $(VENV)/.installed

install-test: $(VENV)/.installed-test

demo: install  ## a simulated cohort through the whole line
	$(BIN)/segaudit demo -o $(DEMO)

$(VENV)/.installed-study: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CPU_TORCH) -e ".[study]"
	touch $@

study-mini: $(VENV)/.installed-study  ## the whole study in small, with real training (seven minutes on two cores)
	$(BIN)/segaudit study mini -o $(STUDY_MINI)

install-system:
	@if ! for program in chromium pdftoppm pdflatex slurmctld slurmd munged; do command -v $$program || echo lacking; done | grep -q lacking; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SYSTEM_PACKAGES) >/dev/null; \
	else echo "tests of the page, of the LaTeX and of SLURM are skipped; they need: $(SYSTEM_PACKAGES)"; fi

test: install-test install-system  ## every test
	$(BIN)/python -m pytest -q

lint: install-test  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed-bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

bench: $(VENV)/.installed-bench  ## the benchmarks, printed as tables and drawn as figures (build/bench/*.svg)
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/battery.py
	$(BIN)/python benchmarks/scale.py

bench-peers: install  ## scoring beside other packages, which go into an environment of their own
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) $(DEMO) $(STUDY_MINI) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
