# make repro: environment + `compclip repro`; make test: environment + the test suite; make test-all: and
# the tests that are marked long; make lint: environment + form and
# types of the code; make numbers: whether it still gives the same ones; make docs: the site; make release: what a release
# must pass, and its files in dist/. All work on a fresh machine.
PYTHON ?= python3
VENV := .venv
# One more than cores: some tests wait for a cluster, a server, another process. Each worker imports for 20 s.
WORKERS ?= $(shell echo $$((1 + $$(getconf _NPROCESSORS_ONLN))))
BIN := $(abspath $(VENV))/bin
# Set in some containers, it makes every one of hundreds of processes compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: repro test test-all lint numbers docs release setup
repro: setup
	@PATH="$(BIN):$$PATH" compclip repro

test: setup
	PATH="$(BIN):$$PATH" python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all: setup
	PATH="$(BIN):$$PATH" PYTEST_ADDOPTS="$$PYTEST_ADDOPTS -m 'not gpu'" python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: setup
	PATH="$(BIN):$$PATH" ruff check
	PATH="$(BIN):$$PATH" ruff format --check
	PATH="$(BIN):$$PATH" mypy

numbers: setup
	PATH="$(BIN):$$PATH" python -m perf.numbers

docs: setup
	PATH="$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --strict

release: setup
	.ci/release

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11; run: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "error: $(PYTHON) has no venv; run: apt-get install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)
# Each module is compiled when it is first imported: of twenty thousand most never are.
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compclip.text.wordnet --install
	touch $@
