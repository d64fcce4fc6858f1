# make reproduce   set up, rebuild theory, simulations, cross-check, figures and the report (results/report.html)
# make test        set up, lint, check types and layers, run the tests of theory, simulations and figures
# make test-llm    the tests of the trainer and of the maze study
# make docs        the pages as a site in build/docs
# make test-trl    the tests of the adapter for TRL, in environments of its own; make test-verl likewise
# The environment is .venv; PYTHON picks the interpreter that makes it (3.11 to 3.13).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CHROMIUM := $(shell command -v chromium && command -v chromedriver)
# Page tests need a browser; everything else runs on a bare machine.
BROWSER := $(if $(CHROMIUM),,and not browser)
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not ray $(BROWSER)"

.PHONY: setup reproduce test test-llm test-slow test-ray test-trl test-verl docs lint bench clean
setup: $(VENV)/.dev

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "setting up $(VENV)" >&2
	$(PIP) --editable '.[sims,figures]'
	@touch $@

$(VENV)/.reproduce: pyproject.toml constraints.txt | $(VENV)/.run
	@echo "setting up $(VENV) for the language models" >&2
	$(PIP) --editable '.[sims,figures,llm,maze]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.run
	@echo "setting up $(VENV) for the tests" >&2
	$(PIP) --editable '.[sims,figures,dev]'
	@touch $@

$(VENV)/.llm: pyproject.toml constraints.txt | $(VENV)/.dev
	$(PIP) --editable '.[sims,figures,llm,maze,dev]'
	@touch $@

$(VENV)/.cluster: pyproject.toml constraints.txt | $(VENV)/.dev
	$(PIP) --editable '.[sims,figures,llm,maze,dev,cluster]'
	@touch $@

reproduce: $(VENV)/.reproduce
	$(BIN)/fgrpo reproduce

test: lint
	$(if $(CHROMIUM),,@echo "no chromium: the tests marked browser are left out" >&2)
	$(PYTEST) tests fgrpo_theory sims figures --ignore tests/llm --ignore tests/maze --ignore tests/adapters_trl --ignore tests/adapters_verl \
		--ignore-glob '*/support/llm_*'

test-llm: $(VENV)/.llm
	$(PYTEST) tests/llm tests/maze llm maze --ignore llm/adapters

test-slow: $(VENV)/.llm
	$(BIN)/python -m pytest -m "slow and not ray $(BROWSER)" --ignore llm/adapters --ignore tests/adapters_trl --ignore tests/adapters_verl

test-ray: $(VENV)/.cluster
	$(BIN)/python -m pytest -m ray tests/sims tests/llm/test_study_ray.py tests/maze/test_study_ray.py

# The adapters run in environments of their own: TRL's newest and an older release, and verl, which wants another transformers.
ADAPTER_TEST := -m pytest -o filterwarnings=default
test-trl: .venv-trl/.done .venv-trl-old/.done
	for venv in .venv-trl .venv-trl-old; do \
		$$venv/bin/python $(ADAPTER_TEST) tests/adapters_trl llm/adapters/trl.py llm/adapters/success.py || exit 1; done

test-verl: .venv-verl/.done
	.venv-verl/bin/python $(ADAPTER_TEST) tests/adapters_verl

.venv-trl/.done: PACKAGES = '.[trl]' trl==1.16.0 transformers==5.24.0 accelerate==1.15.0
.venv-trl-old/.done: PACKAGES = '.[trl]' trl==0.19.1 transformers==4.53.3 accelerate==1.15.0
# verl's trainer imports the last four without asking for them.
.venv-verl/.done: PACKAGES = '.[verl]' verl==0.9.1 TransferQueue fastapi uvicorn cachetools
.venv-trl/.done .venv-trl-old/.done .venv-verl/.done: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 pytest beartype --editable $(PACKAGES)
	@touch $@

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "site: build/docs/index.html"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy fgrpo_theory fgrpo.py sims figures
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) .venv-trl .venv-trl-old .venv-verl build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
