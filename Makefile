# Everything a fresh machine needs: Python 3.11 or newer, make, pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test lint demo clean

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile  # one core each

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(VENV)/installed
	@echo "The demo takes some minutes. Loading torch and transformers comes first."
	$(BIN)/python -m som.demo

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build *.egg-info
