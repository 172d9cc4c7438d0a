# Everything runs in .venv, which is made on first use and brought up to date when pyproject.toml changes.
# Only test-lowest has an environment of its own, .venv-lowest, with the lowest versions that pyproject.toml allows.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
LOWEST_BIN := .venv-lowest/bin
FAST := not statistical and not slow
NOTEBOOKS := $(wildcard notebooks/*.py)
EXPERIMENTS := e1_equipotential e2_pair e3_dimension e4_scales e5_logistic e6_parallel

.PHONY: help demo test test-fast test-lowest lint bench notebooks docs release-check paper peers

help:
	@echo "make demo         run the demo: a table, and a picture in out/"
	@echo "make test         run all tests"
	@echo "make test-fast    run all but the slow and the statistical tests"
	@echo "make test-lowest  run the fast tests with the lowest versions of the dependencies"
	@echo "make lint         check style, format and types"
	@echo "make bench        run the benchmarks"
	@echo "make notebooks    execute the notebooks"
	@echo "make docs         build the site in out/site/"
	@echo "make release-check  build wheel and source, and try each in an environment of its own"
	@echo "make paper        run the paper's experiments with few runs: pictures and a page in out/paper/"
	@echo "make peers        compare with other samplers (some hours; installs them too)"

demo: .venv/stamp
	@$(BIN)/python benchmarks/demo.py

test: .venv/stamp
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

test-fast: .venv/stamp
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "$(FAST)"

# Old releases use what newer releases of their own dependencies deprecate, so deprecations are no errors here.
test-lowest: .venv-lowest/stamp
	@$(LOWEST_BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "$(FAST)" -W default::DeprecationWarning

lint: .venv/stamp
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

bench: .venv/stamp
	@$(BIN)/python benchmarks/overhead.py
	@$(BIN)/python benchmarks/tricks.py
	@$(BIN)/python benchmarks/memory.py
	@$(BIN)/python benchmarks/lazy.py
	@$(BIN)/python benchmarks/guide.py
	@$(BIN)/python benchmarks/sample.py
	@$(BIN)/python benchmarks/trust.py --seeds 1
	@$(BIN)/python benchmarks/diagnostics.py
	@$(BIN)/python benchmarks/models.py

notebooks: .venv/stamp
	@mkdir -p out
	@for notebook in $(NOTEBOOKS); do \
	  echo "$$notebook"; \
	  PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m jupytext --quiet --to ipynb --execute \
	    --output "out/$$(basename "$$notebook" .py).ipynb" "$$notebook" || exit 1; \
	done

docs: .venv/stamp
	@rm -rf out/site
	@$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs out/site
	@echo "out/site/index.html"

release-check: .venv/stamp
	@$(BIN)/python tests/release_check.py

paper: .venv/stamp
	@for experiment in $(EXPERIMENTS); do $(BIN)/python benchmarks/paper/$$experiment.py --quick || exit 1; done

peers: .venv/stamp
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[peers]'
	@$(BIN)/python benchmarks/peers/compare.py
	@$(BIN)/python benchmarks/peers/first_call.py

.venv/stamp: pyproject.toml
	@echo "Setting up .venv (some minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@

# pip has no way to ask for the lowest versions, uv has.
.venv-lowest/stamp: pyproject.toml
	@echo "Setting up .venv-lowest (some minutes the first time)"
	@test -x $(LOWEST_BIN)/python || $(PYTHON) -m venv .venv-lowest
	@$(LOWEST_BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(LOWEST_BIN)/uv pip install --quiet --python $(LOWEST_BIN)/python --resolution lowest-direct --editable '.[test]'
	@touch $@
