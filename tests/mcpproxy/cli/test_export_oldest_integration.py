"""The database that `export` writes opens in the oldest DuckDB that its page names; every view has the same rows."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.store.reference import relations
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.store.test_views_integration import conversations
from tests.mcpproxy.cli.typed import mcpproxy
from tests.warm import DEADLINE_S
from tests.wheels import installed

ROOT = Path(__file__).parents[3]
STREAMS = ROOT / "tests/corpus/captures/http.mcpcap"

# Run by each DuckDB: prints its version and, for each table and view, the rows as text or the error.
READER = """
import json, sys
import duckdb

def rows(name):
    try:
        return sorted(map(repr, connection.execute(f"select * from {name}").fetchall()))
    except duckdb.Error as error:
        return str(error)

connection = duckdb.connect(sys.argv[1], read_only=True)
# DuckDB takes code run by `python -c` for a prompt, and draws a progress bar on stdout during slow statements.
connection.execute("set enable_progress_bar = false")
names = connection.execute("select table_name from information_schema.tables").fetchall()
print(json.dumps([duckdb.__version__, {name: rows(name) for (name,) in names}]))
"""


@pytest.mark.costly("another DuckDB is unpacked, and both read every table and view")
def test_every_table_and_view_reads_the_same_in_the_oldest_version(tmp_path: Path) -> None:
    page = (ROOT / "docs/commands/export.md").read_text("utf-8")
    (oldest,) = re.findall(r"DuckDB ([0-9.]+[0-9]) and newer can read it", page)
    package = installed("duckdb", oldest, tmp_path / "package")
    (tmp_path / "captures").mkdir()
    captures = [*conversations(tmp_path / "captures"), *a_login_and_a_lost_call(tmp_path / "captures"), STREAMS]
    done = mcpproxy("export", "--format", "duckdb", "--findings", tmp_path / "out", *captures)
    assert (done.returncode, done.stderr) == (0, b"")

    _, ours = read(tmp_path / "out/captures.duckdb")
    version, theirs = read(tmp_path / "out/captures.duckdb", PYTHONPATH=str(package))
    assert f"{version}.".startswith(f"{oldest}.")
    assert set(theirs) == {relation.name for relation in relations()}
    assert {name: rows for name, rows in theirs.items() if isinstance(rows, str)} == {}
    assert theirs == ours
    assert [name for name, rows in ours.items() if not rows] == [], "a view without a row proves little"


def a_login_and_a_lost_call(folder: Path) -> Iterator[Path]:
    """Two captures of one conversation, in which a call is lost on its way to the server; the other one has a login."""
    client, server = CaptureWriter(folder / "near.mcpcap", "near", 71), CaptureWriter(folder / "far.mcpcap", "far", 72)
    head = {"method": "POST", "target": "/token", "headers": []}
    answer, refused = {"status": 400, "headers": []}, {"leg": "token", "error": "invalid_grant"}
    server.record(1, "exchange", exchange=1, stage="end", request=head, response=answer, oauth=refused)
    for number in range(1, 6):
        meta = {"traceparent": f"00-{number:032x}-{1:016x}-01", "vscode.requestId": "a turn"}
        for writer, is_lost in ((client, False), (server, number == 3)):
            if not is_lost:
                writer.ask(100 * number, number, "tools/call", name="forecast", arguments={}, _meta=meta)
                writer.answer(100 * number + 10, number, content=[])
    yield client.close()
    yield server.close()


def read(path: Path, **environment: str) -> tuple[str, dict[str, list[str] | str]]:
    """Returns the version that DuckDB reports, and what it reads."""
    # -P keeps the folder of the tests from being taken for a package.
    done = subprocess.run(
        [sys.executable, "-P", "-c", READER, str(path)],
        capture_output=True,
        env={**os.environ, **environment},
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    version, rows = json.loads(done.stdout)
    return version, rows
