# make demo         set up, build a town, film a drive, localize it: see demo/track/report.html
# make live         set up, build a town, drive a car through it, and watch it being found on a live map
# make test-fast    the tests that need neither torch nor much time: two minutes on 2 cores
# make test         every test (installs torch, 5.5 GB)
# make coverage     every test, with a coverage summary and a report in htmlcov/
# make lint         ruff and mypy --strict
# make docs         the documentation site, in site/
# make fuzz-api     thousands of cases against the live service, by schemathesis
# make fuzz         broken files for every reader, 20 minutes on 2 cores; summary in fuzz.json
# make chaos        commands that are killed, starved and interrupted; summary in chaos.json
# make soak         a day of driving on a simulated clock; summary in soak.json
# make looking      a short version of these three, as in CI
# make audit        licences, known vulnerabilities, and a bill of materials in sbom.json
# make lock         renew requirements/*.txt: exact versions beside the ranges of pyproject.toml
# make tiny-bundle  export tests/data/tiny-bundle again

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run in two processes; more threads than cores would only wait for each other.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo live test-fast test coverage lint docs fuzz-api fuzz chaos soak looking audit lock tiny-bundle clean

# One environment in the checkout. A stamp per set of extras; pip runs again when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.serve: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[serve]'
	touch $@ $(VENV)/.base

$(VENV)/.fast: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev,programs,serve]'
	touch $@ $(VENV)/.base $(VENV)/.serve

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev,programs,serve,train,baselines]'
	touch $@ $(VENV)/.base $(VENV)/.serve $(VENV)/.fast

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/x2l demo --out demo

live: $(VENV)/.serve
	$(BIN)/x2l live --out demo

test-fast: $(VENV)/.fast
	$(PYTEST) -m "not torch and not slow"

test: $(VENV)/.dev
	$(PYTEST)

coverage: $(VENV)/.dev
	$(PYTEST) --cov --cov-report=term --cov-report=html

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

fuzz-api: $(VENV)/.fast
	X2L_FUZZ_CASES=120 $(BIN)/python -m pytest -s tests/serve/test_schema.py

fuzz: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m fuzz --minutes 20 --workers 2 --json ../fuzz.json

chaos: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m chaos --rounds 5 --json ../chaos.json

soak: $(VENV)/.fast
	cd tests && ../$(BIN)/python -m soak --json ../soak.json

looking: $(VENV)/.fast
	cd tests && ../$(BIN)/python -m fuzz --inputs 30 --minutes 0.7 --json ../fuzz.json
	cd tests && ../$(BIN)/python -m chaos --rounds 1 --command index --command localize --fault "kill -9" \
		--fault "full disk" --json ../chaos.json
	cd tests && ../$(BIN)/python -m soak --hours 1 --spacing 20 --json ../soak.json

audit: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m supply_chain --sbom ../sbom.json

LOCK = $(BIN)/pip-compile --quiet --strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-trusted-host \
	--no-emit-find-links --unsafe-package x2localizer --upgrade pyproject.toml

lock: $(VENV)/.dev
	$(LOCK) --output-file requirements/base.txt
	$(LOCK) --extra serve --extra programs --output-file requirements/serve.txt
	$(LOCK) --extra serve --extra programs --extra train --extra baselines --extra dev --extra docs --output-file requirements/dev.txt

tiny-bundle: $(VENV)/.dev
	$(BIN)/python tests/helpers/tiny_bundle.py

clean:
	rm -rf $(VENV) demo site htmlcov .coverage
