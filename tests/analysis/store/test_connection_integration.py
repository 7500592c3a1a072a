"""DuckDB never draws on stdout, which is reserved for data."""

import subprocess
import sys

import pytest

from analysis.store.connection import connect

ASKED = """
import sys
from analysis.store.connection import connect
with connect() as connection:
    print(connection.execute("select count(*) from range(5_000_000_000) as a where sqrt(a.range) < 2").fetchone())
"""


def test_the_bar_of_long_statements_is_off() -> None:
    with connect(memory_limit="100MB") as connection:
        assert connection.execute("select current_setting('enable_progress_bar')").fetchone() == (False,)


@pytest.mark.soak
def test_a_long_statement_draws_no_bar() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"(4,)\n", b"")
