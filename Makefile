# make demo   set up, then build a town and a drive and show them
# make test   set up with the developer's tools and torch (5.5 GB), then run every test
# make lint   ruff and mypy --strict

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean

# One environment in the checkout. A stamp per set of extras; pip runs again when pyproject.toml changes.
$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,train]'
	touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/x2l demo --out demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo
