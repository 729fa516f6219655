# `make demo` and `make test` set up what they need; the second time that is a no-op.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# pip's own place for local wheels, where it has one; uv does not read pip's settings.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_COMPILE_BYTECODE ?= 1
# For people who want PyTorch's CPU builds from an index of their choice.
TORCH_INDEX_URL ?=
# Each starts servers of its own and needs about 2 GB.
TEST_PROCESSES ?= 2

.PHONY: install demo test lint slow clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "tdrop needs Python 3.11; set PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --python $(BIN)/python --quiet $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL)) \
		-c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/tdrop demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# File by file to the next idle process, in the order that tests/conftest.py gives.
test: lint
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) .tdrop build *.egg-info
