# `make demo` installs what a user needs, `make test` the rest; the second time both install nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# What a user needs, and what the tests need besides.
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
# pip's own place for local wheels, where it has one; uv does not read pip's settings.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_COMPILE_BYTECODE ?= 1
# For people who want PyTorch's CPU builds from an index of their choice.
TORCH_INDEX_URL ?=
# Each starts servers of its own, waits for them often and needs about 2 GB.
TEST_PROCESSES ?= 4

INSTALL = $(BIN)/uv pip install --python $(BIN)/python --quiet -c constraints.txt \
	$(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL))

.PHONY: install demo test lint pytest resolve docs slow clean

install: $(STAMP)

$(BIN)/uv:
	@command -v $(PYTHON) >/dev/null || { echo "tdrop needs Python 3.11; set PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet -c constraints.txt uv

$(STAMP): pyproject.toml constraints.txt | $(BIN)/uv
	$(INSTALL) -e .
	@touch $(STAMP)

$(DEV_STAMP): pyproject.toml constraints.txt | $(BIN)/uv
	$(INSTALL) -e '.[dev]'
	@touch $(STAMP) $(DEV_STAMP)

demo: $(STAMP)
	@$(BIN)/tdrop demo

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# At the same time: the tests wait for servers often enough.
test: $(DEV_STAMP)
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

# File by file to the next idle process, in the order that tests/conftest.py gives.
pytest: $(DEV_STAMP)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

# Whether constraints.txt still resolves, on every kind of machine that it is promised for; nothing is installed.
resolve: | $(BIN)/uv
	@for platform in x86_64-unknown-linux-gnu aarch64-apple-darwin; do \
	  MACOSX_DEPLOYMENT_TARGET=14.0 $(BIN)/uv pip compile --quiet --extra dev -c constraints.txt --python-version 3.11.7 \
	    --python-platform $$platform pyproject.toml > /dev/null || exit 1; \
	  echo "$$platform: constraints.txt resolves"; \
	done

docs: $(DEV_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html; for its search: python3 -m http.server --directory build/site"

slow: $(DEV_STAMP)
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) .tdrop build *.egg-info
