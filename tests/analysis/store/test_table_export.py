"""What an export writes of messages, and that an export ended by a signal leaves nothing at any stage."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.store.open import Source
from analysis.store.table_export import Form, export
from tests.analysis.store.capture_writer import CaptureWriter

DEMO = Path(__file__).parents[2] / "corpus/captures/demo.mcpcap"


@pytest.mark.parametrize("after", [1, 2, 3], ids=["above", "place", "private"])
def test_a_signal_right_behind_a_folder_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    made = 0
    real: Callable[..., None] = os.mkdir

    def mkdir(*arguments: Any, **more: Any) -> None:
        nonlocal made
        real(*arguments, **more)
        made += 1
        if made == after:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(KeyboardInterrupt):
        export([Source(DEMO, "0" * 32, None)], "csv", tmp_path / "above" / "out")
    assert made == after
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["parquet", "csv", "duckdb"])
def test_no_form_has_a_message_that_parsers_read_differently(tmp_path: Path, form: Form) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    raws = (
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"x":[{"y":1,"y":2}]}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":3,"method":"a"}',
    )
    for raw in raws:
        talk.raw(0, "c2s", raw)
    out = tmp_path / "out"
    export([Source(talk.close(), talk.capture, None)], form, out)
    place = {"parquet": f"'{out}/frames/*/*.parquet'", "csv": f"'{out}/frames.csv'", "duckdb": "made.frames"}[form]
    with duckdb.connect() as connection:
        if form == "duckdb":
            connection.execute(f"attach '{out}/captures.duckdb' as made (read_only)")
        found = connection.execute(f"select id, message, message_problem from {place} order by seq").fetchall()
    assert [(str(id_), message, why) for id_, message, why in found] == [
        ("2", None, "duplicate member"),
        ("1", None, "duplicate member"),
        ("1", None, "not JSON"),
        ("3", raws[-1].decode(), None),
    ]
