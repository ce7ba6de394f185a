# Two commands for users: `make demo` and `make test`. Everything is installed into .venv from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test lint types smoke full matrix leaderboard slow speed clean

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
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

smoke: install
	$(BIN)/bench smoke --backbone all --processes 2

# What is measured beyond the core, on rows whose answers are known.
full: install
	$(BIN)/bench smoke --full --processes 2

matrix: install
	$(BIN)/bench smoke --matrix --processes 2

# The published results are sound, and the published pages are what they make, byte for byte.
leaderboard: install
	$(BIN)/bench verify leaderboard/results --no-demo
	$(BIN)/bench verify leaderboard/grids/small-cpu --no-demo
	$(BIN)/bench site --check

slow: install
	$(BIN)/python -m pytest -m slow

speed: install
	$(BIN)/python -m pytest tests/benchmarks -m speed -s

clean:
	rm -rf $(VENV) build dist *.egg-info
