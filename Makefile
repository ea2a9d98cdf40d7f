# quickstart and test are all that a newcomer needs: each sets up .venv by itself.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# What pip needs to find the right build of torch, e.g. TORCH_ARGS="--index-url <the CPU wheel index of PyTorch>".
TORCH_ARGS ?=
export TORCH_ARGS
export MLFLOW_DISABLE_TELEMETRY = true
export DO_NOT_TRACK = true
export GIT_PYTHON_REFRESH = quiet
BIN = .venv/bin
BENCHMARKS ?= strategies against_easyfsl parity training_overhead fair_rivals

.PHONY: quickstart test test-slow test-all docs lint types bench bench-slow ui environment clean
quickstart: environment
	$(BIN)/transduce quickstart

# Compiled files are kept whatever the shell says: without them each process of the tests compiles for half a minute.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist worksteal -q

test: environment
	$(PYTEST) -m "not slow" $(TESTS)

test-slow: environment
	$(PYTEST) -m slow $(TESTS)

test-all: test test-slow

# A broken link or reference is a warning, and every warning is an error.
docs: environment
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -b html docs build/docs
	@echo "the site: build/docs/index.html"

lint: environment
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: environment
	$(BIN)/mypy

bench: environment
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-slow: environment
	$(BIN)/python benchmarks/scale.py 10000 30000 100000 300000 1000000

ui: environment
	$(BIN)/transduce ui

environment:
	@$(PYTHON) .ci/environment.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
