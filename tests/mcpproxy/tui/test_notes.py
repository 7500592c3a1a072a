"""Rare facts are noted once, and again only if they change; those beyond the limit are only counted."""

from pathlib import Path

import pytest

from mcpproxy.tui.data import notes as notes_module
from mcpproxy.tui.data.notes import Notes
from tests.mcpproxy.tui.stage import END, conversation, frame_record, record
from tests.mcpproxy.tui.test_columns import CANCEL, read


def test_a_note_is_told_once_and_again_if_it_has_changed() -> None:
    notes = Notes()
    for _ in range(2):
        notes.add("carried", 1, 5, None)
        notes.add("cancelled", 1, 5)
    assert notes.take_news() == [{"note": ["carried", 1, 5, None]}, {"note": ["cancelled", 1, 5]}]
    notes.add("carried", 1, 5, None)
    notes.add("carried", 1, 6, 9)
    assert notes.take_news() == [{"note": ["carried", 1, 6, 9]}]
    assert (notes.has("carried", 1), notes.has("cancels", 1), notes.take_news()) == (True, False, [])


def test_notes_of_each_sort_are_bounded_and_what_is_left_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes_module, "MAX_NOTES_PER_SORT", 2)
    asked = [frame_record("c2s", b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % n) for n in range(100, 105)]
    given_up = [frame_record("c2s", CANCEL % n) for n in range(100, 105)]
    reading = read(record(tmp_path / "x.mcpcap", [*conversation(2), *asked, *given_up, END]))
    assert len(reading.conversation.cancelled_at) == len(reading.conversation.cancellations) == 2
    assert reading.forgotten == ["6 notes on what cancelled, ended or probably answered a request are left out here"]
    reading.close()
