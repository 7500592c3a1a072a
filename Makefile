# Everything sets itself up in .venv; PYTHON names the interpreter to build it with (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo setup test test-fast check test-spark lint types contracts bench soak conformance zoo test-hosts golden pictures film rules-docs extensions-docs sql-docs changes-docs clients-docs doctor-docs import-docs share-docs body-table clean

# The main job on a bundled real server: recorded, then shown.
demo: $(VENV)/.base
	@$(BIN)/mcpproxy demo

# What tests need from a registry, see tests/fetch.py: the only part of a run of the tests that needs a network. Quick if all is there.
setup: $(VENV)/.check
	@$(BIN)/python -m tests.fetch

# The whole test suite, four processes wide, as a quarter of the time is spent waiting; a process that runs out of tests
# takes some of another's.
PYTEST := $(BIN)/pytest -n 4 --dist worksteal
test: setup
	$(PYTEST)

# For the inner loop: the unit tests, see tests/unit.py, without plugins that load what they do not need.
test-fast: $(VENV)/.check
	$(BIN)/pytest --unit -n 2 --dist worksteal -p no:anyio -p no:syrupy -p no:textual-snapshot

# Everything that CI runs except the Spark tests: format, lint, types, import contracts, tests.
check: lint types contracts test

# The tests of the Spark source and of the views on Spark, in an environment of its own: Spark is 400 MB. It needs Java 17 or newer.
test-spark: $(VENV)/spark/.ready
	@echo "Spark: a minute of one core, and no network once $(VENV)/spark is there."
	$(VENV)/spark/bin/python -m pytest tests/spark

SPARK := 'pytest>=9' 'pytest-timeout>=2.4' 'hypothesis>=6.150' 'moto[server]>=5.2' --editable '.[ship,spark]'
$(VENV)/spark/.ready: pyproject.toml | $(VENV)/.made
	@echo "Setting up $(VENV)/spark, once: 400 MB are fetched."
	@$(BIN)/python -m venv --clear --without-pip $(VENV)/spark
	@$(call install,$(VENV)/spark/bin/python,$(SPARK))
	@touch $@

lint: $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.check
	$(BIN)/mypy

contracts: $(VENV)/.check
	$(BIN)/lint-imports

# Informs and never gates: ratios against a direct run and a C tee relay, in one run; then `serve`, `serve` under floods, the screens and the report.
bench: $(VENV)/.check
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.serve
	$(BIN)/python -m tests.bench.fairness
	$(BIN)/python -m tests.bench.tui
	$(BIN)/python -m tests.bench.report

# The long loops: 500 kills, 65,536 truncations, 10,000 bit flips, 100,000 conversations at random for the checker,
# 10,000 idle streams through `serve`, the corpus with each record lost in turn; then every property test on new examples.
soak: setup
	@echo "Soak: hours of two cores, some GB of memory, and no network."
	@failed=0; \
	$(PYTEST) -m soak --timeout 3600 || failed=1; \
	$(PYTEST) -m 'hypothesis and not soak' --hypothesis-profile soak --timeout 3600 || failed=1; \
	[ $$failed = 0 ] && echo "soak: all passed" || { echo "soak: something failed, see above"; exit 1; }

# The official conformance suite, from npm, with `serve` and without; NODE names a Node 22 or newer.
NODE ?= node
conformance: $(VENV)/.check
	@echo "Conformance: six minutes of one core; npm fetches the suite, each time."
	$(BIN)/python -m tests.conformance --node $(NODE)
	$(BIN)/python -m tests.conformance --public --node $(NODE)

# Real clients, each with its own configuration file routed, used and restored; those that take long to fetch, too.
test-hosts: $(VENV)/.check
	@echo "Hosts: some minutes of one core; npm and PyPI are asked for 1 GB, once."
	-@$(BIN)/python -m tests.fetch --hosts all
	$(BIN)/pytest -m 'hosts or not hosts' tests/hosts

# Real servers and clients from PyPI and npm, with and without the recorder; HOSTS=all includes the slow hosts.
HOSTS ?= quick
zoo: $(VENV)/.check
	@echo "Zoo: ten minutes of two cores, and twenty more with nginx and haproxy; npm and PyPI are asked for 2 GB, once."
	$(BIN)/python -m tests.zoo --findings --hosts $(HOSTS)
	@if command -v nginx >/dev/null && command -v haproxy >/dev/null; then $(BIN)/python -m tests.zoo.gateways; \
	else echo "zoo: nginx and haproxy are not both installed, so no server is driven through a gateway"; fi

# Golden texts of `show`, made anew; read the difference before you commit it.
golden: $(VENV)/.check
	REGENERATE=1 $(BIN)/pytest -q tests/mcpproxy/test_conversation.py

# The pictures of the screens and of the report in the documentation, drawn anew; `pytest --snapshot-update` takes those that tests compare.
pictures: $(VENV)/.check
	$(BIN)/python -m tests.mcpproxy.tui.scenes docs/pictures
	$(BIN)/python -m tests.mcpproxy.html_report.pictures docs/pictures

# The film in the README, recorded and drawn again; it takes half a minute.
film: $(VENV)/.check
	$(BIN)/python -m tests.film docs/pictures

# The reference in docs/rules, made anew from the rules.
rules-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.wording.rule_pages docs/rules

# The page of the known extensions in docs/extensions.md, made anew from their table.
extensions-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.wording.extension_page docs/extensions.md

# The reference of the tables and views in docs/sql.md, made anew from the columns in analysis/store and the SQL of the views.
sql-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.report.sql_page docs/sql.md

# The kinds of changes and the JSON lines of `compare` in docs/changes.md, made anew from their tables.
changes-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.report.change_page docs/changes.md

# The page of the clients in docs/clients.md, made anew from the catalogue.
clients-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.clients.page docs/clients.md

# The pages of the verdicts in docs/doctor, made anew from the verdicts.
doctor-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.doctor.pages docs/doctor

# The pages of the forms of logs in docs/imports, made anew from their modules.
import-docs: $(VENV)/.check
	$(BIN)/python -m mcpproxy.importers.pages docs/imports

# What `share` leaves of planted secrets, in docs/commands/share.md, measured anew.
share-docs: $(VENV)/.check
	$(BIN)/python -m tests.mcpproxy.sharing.matrix docs/commands/share.md

# The table of what mcp-types declares, made anew from the version that is installed.
body-table: $(VENV)/.check
	$(BIN)/python -m analysis.shapes.mcp_types_adapter analysis/shapes/body_table.json

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Install packages ($(2)) where an interpreter is ($(1)). uv takes a tenth of pip's time; it knows nothing of pip's settings, so
# where it cannot, pip does it. Groups are read by pip 25.1 or newer, which older Pythons do not bring.
define install
{ test -x $(BIN)/uv && $(BIN)/uv pip install --quiet --python $(1) $(2); } || \
	{ $(PIP) install --upgrade pip && $(PIP) --python $(1) install $(2); } || \
	{ echo "set-up failed: could not install the packages (see above). Check that the registry is reachable, then run the same command again" >&2; exit 1; }
endef
export PIP_ROOT_USER_ACTION := ignore

$(VENV)/.made:
	@echo "Setting up $(VENV), once; this may take a minute."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install uv || echo "could not install uv; using pip instead, which is slower"
	@touch $@

$(VENV)/.base: pyproject.toml | $(VENV)/.made
	@$(call install,$(BIN)/python,--editable .)
	@touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/.made
	@$(call install,$(BIN)/python,--group check --editable .)
	@touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/bench/.build
