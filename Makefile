# Every target but `install` needs `install`, which runs again only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install lint typecheck test docs site reference pictures package soak demo bench bench-peers check clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(STAMP)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: install
	$(BIN)/mypy

test: install
	$(BIN)/kvboost models pull --quiet
	$(BIN)/pytest -n 2 --dist loadfile

docs: install
	$(BIN)/pytest -q tests/test_docs.py

site: install
	$(BIN)/sphinx-build -W --keep-going -q -b html -c docs . build/site
	@echo "build/site/index.html"

reference: install
	$(BIN)/python scripts/reference.py

pictures: install
	$(BIN)/kvboost models pull --quiet
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/record.py
	$(BIN)/kvboost bench quality -q $(addprefix --from=,$(wildcard docs/pictures/*.json)) --plot docs/pictures/quality.svg

package: install
	$(BIN)/python -m build

soak: install
	$(BIN)/pytest -s tests/soak --soak

demo: install
	PATH="$(abspath $(BIN)):$$PATH" scripts/demo.sh

bench: install
	$(BIN)/kvboost bench ttft

bench-peers: install
	$(BIN)/kvboost models pull --quiet
	$(BIN)/python -m benchmarks.peers.pypi_kvboost
	$(BIN)/python -m benchmarks.peers.llama_cpp

check: lint typecheck test

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
