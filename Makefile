# Everything sets itself up in .venv; PYTHON names the interpreter to build it with (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint types contracts bench soak conformance golden pictures rules-docs sql-docs clean

# The main job on a bundled real server: recorded, then shown.
demo: $(VENV)/.base
	@$(BIN)/mcpproxy demo

# The whole test suite, two processes wide.
test: $(VENV)/.check
	$(BIN)/pytest -n 2

# Everything CI looks at: format, lint, types, import contracts, tests.
check: lint types contracts test

lint: $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.check
	$(BIN)/mypy

contracts: $(VENV)/.check
	$(BIN)/lint-imports

# Informs and never gates: ratios against a direct run and a C tee relay, in one run; then `serve`, and the screens.
bench: $(VENV)/.check
	$(BIN)/python -m bench
	$(BIN)/python -m bench.serve
	$(BIN)/python -m bench.tui

# The long loops: 500 kills, 65,536 truncations, 10,000 bit flips, 100,000 conversations at random for the checker.
soak: $(VENV)/.check
	$(BIN)/pytest -m soak -n 2 --timeout 3600

# The official conformance suite, from npm, with `serve` and without; NODE names a Node 22 or newer.
NODE ?= node
conformance: $(VENV)/.check
	$(BIN)/python -m tests.conformance --node $(NODE)

# Golden texts of `show`, made anew; read the difference before you commit it.
golden: $(VENV)/.check
	REGENERATE=1 $(BIN)/pytest -q tests/mcpproxy/test_conversation.py

# The pictures of the screens in the README, drawn anew; `pytest --snapshot-update` takes those that tests compare.
pictures: $(VENV)/.check
	$(BIN)/python -m tests.mcpproxy.tui.scenes docs/pictures

# The reference in docs/rules, made anew from the rules.
rules-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.report.rule_pages docs/rules

# The reference of the tables and views in docs/sql.md, made anew from their SQL.
sql-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.report.sql_page docs/sql.md

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --group check --editable .
	@touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/.build
