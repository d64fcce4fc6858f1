# make reproduce   set up, rebuild theory, simulations, cross-check, figures and the report (results/report.html)
# make test        set up, lint, check types and layers, run the tests of theory, simulations and figures
# make test-llm    the tests of the trainer
# The environment is .venv; PYTHON picks the interpreter that makes it (3.11 to 3.13).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CHROMIUM := $(shell command -v chromium && command -v chromedriver)
# Page tests need a browser; everything else runs on a bare machine.
BROWSER := $(if $(CHROMIUM),,and not browser)
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not ray $(BROWSER)"

.PHONY: setup reproduce test test-llm test-slow test-ray lint bench clean
setup: $(VENV)/.dev

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "setting up $(VENV)" >&2
	$(PIP) --editable '.[sims,figures]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.run
	@echo "setting up $(VENV) for the tests" >&2
	$(PIP) --editable '.[sims,figures,dev]'
	@touch $@

$(VENV)/.llm: pyproject.toml constraints.txt | $(VENV)/.dev
	$(PIP) --editable '.[sims,figures,llm,dev]'
	@touch $@

$(VENV)/.cluster: pyproject.toml constraints.txt | $(VENV)/.dev
	$(PIP) --editable '.[sims,figures,dev,cluster]'
	@touch $@

reproduce: $(VENV)/.run
	$(BIN)/fgrpo reproduce

test: lint
	$(if $(CHROMIUM),,@echo "no chromium: the tests marked browser are left out" >&2)
	$(PYTEST) tests fgrpo_theory sims figures --ignore tests/llm --ignore-glob '*/support/llm_*'

test-llm: $(VENV)/.llm
	$(PYTEST) tests/llm llm

test-slow: $(VENV)/.llm
	$(BIN)/python -m pytest -m "slow and not ray $(BROWSER)"

test-ray: $(VENV)/.cluster
	$(BIN)/python -m pytest -m ray tests/sims

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy fgrpo_theory fgrpo.py sims figures
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
