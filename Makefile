# Everything a fresh machine needs: Python 3.11 or newer, make, pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test lint demo clean

test: lint
	$(BIN)/python -m pytest

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
