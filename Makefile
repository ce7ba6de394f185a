# Two commands for users: `make demo` and `make test`. Everything is installed into .venv from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: install demo test slow lint types smoke full matrix frozen leaderboard docs huge speed clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

demo: install
	$(BIN)/bench run --task demo-brand --method tracer

# Two workers, each on one thread: files stay together, so that what a module trains is trained once.
test: install lint types
	$(PYTEST) --numprocesses 2 --dist loadfile

# A tenth of the tests, which together take longer than the others.
slow: install
	$(PYTEST) -m "slow and not (huge or speed or slurm or smoke or full or matrix or frozen)" --numprocesses 2 --dist loadfile

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# Whole runs on the demo, on every backbone, with the directions that every honest run must show.
smoke: install
	$(PYTEST) tests/smoke -m smoke --numprocesses 2 --dist loadgroup

# Measurements beyond the core, on cases with known answers.
full: install
	$(PYTEST) tests/smoke -m full

# Every method on every backbone for every kind of request, a few steps each; skipped: what a method does not serve.
# Every backbone, the full suite and all checks of the doctor on simulated GPUs; trainings in two processes.
matrix: install
	$(PYTEST) -m matrix --numprocesses 2 --dist loadgroup

# Methods on three backbones, suites and kinds of requests against frozen outcomes, to the bit.
frozen: install
	OMP_NUM_THREADS=1 $(PYTEST) tests/frozen -m frozen --numprocesses 2 -s

# The published results are sound, and the published pages are what they make, byte for byte.
leaderboard: install
	$(BIN)/bench submission verify leaderboard/results --no-demo
	$(BIN)/bench submission site --check

# The site, offline, with warnings as errors: docs/_build/index.html.
docs: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/sphinx-build --quiet -W -n --keep-going docs docs/_build

# Large inputs, more than three minutes a test, or real data (GENREC_UNLEARN_BENCH_DATA).
huge: install
	$(PYTEST) -m huge

speed: install
	$(BIN)/python -m pytest tests/benchmarks -m speed -s

clean:
	rm -rf $(VENV) build dist docs/_build *.egg-info
