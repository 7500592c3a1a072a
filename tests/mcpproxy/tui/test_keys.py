"""Configured keys: by binding name, with a warning for entries that make no sense, and all on the help page."""

import os

import pytest
from textual.binding import Binding
from textual.keys import format_key

from mcpproxy.tui.configuration import configuration_path
from mcpproxy.tui.keys.bindings import KEYS_FILE, _bindings, default_keys, read_keys
from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.screens.help import PLACE_ROWS, ROWS, help_text
from tests.harness import ROOT

FIXED = {"submit", "leave", "earlier(1)", "earlier(-1)", "run", "new_line", "turn"}
"""Actions of boxes in which text is typed: their keys are not characters, and are fixed."""


def write(text: str) -> None:
    path = configuration_path(KEYS_FILE)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_every_binding_has_a_name_that_says_the_same_everywhere() -> None:
    actions: dict[str, set[str]] = {}
    for binding in _bindings():
        assert isinstance(binding, Binding)
        if binding.action not in FIXED:
            assert binding.id, binding
            actions.setdefault(binding.id, set()).add(binding.key)
    assert {"pair", "mark", "quit", "findings", "sql"} <= set(default_keys())


def test_the_page_lists_every_name() -> None:
    page = (ROOT / "docs/commands/tui.md").read_text()
    assert [name for name in default_keys() if f"`{name}`" not in page] == []


def test_help_lists_every_key() -> None:
    told = {word.lower() for row in (*ROWS, *PLACE_ROWS) if row.text for word in row.keys.split()} | {
        entry.key for entry in entries()
    }
    told |= {"pageup", "pagedown"} & {word.replace("pg", "page").replace("dn", "down") for word in told}
    shown = {"enter": "enter", "escape": "esc", "apostrophe": "'", "left": "←", "right": "→", "up": "↑", "down": "↓"}
    missing = []
    for binding in _bindings():
        if binding.id:
            key = binding.key.split(",")[0]
            key = shown.get(key) or (key if "+" in key else format_key(key)).lower()
            missing += [binding] if key not in told else []
    assert missing == []


def test_a_pipe_in_place_of_the_file_is_told_and_not_waited_for() -> None:
    path = configuration_path(KEYS_FILE)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    assert read_keys().errors == f"{path} is not a regular file"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[keys]\nfly = "f"\npair = "P"', "keys.toml: there is no action fly"),
        ("[keys]\npair = 5", 'pair needs a key such as "P"'),
        ('[keys]\npair = ["a b"]', "pair needs a key"),
        ("[keys]\npair = []", "pair needs a key"),
        ("[keys\n", "keys.toml, line 1: "),
        ("keys = 5", "expected one table"),
        ("[other]", "expected one table"),
        ("\x00", "keys.toml, line 1: "),
    ],
)
def test_invalid_entries_are_reported_in_a_line_and_the_rest_applies(text: str, wrong: str) -> None:
    write(text)
    found = read_keys()
    assert wrong in found.errors
    assert "\n" not in found.errors
    assert found.keymap == ({"pair": "P"} if "fly" in text else {})


def test_what_every_screen_needs_keeps_its_key() -> None:
    write('[keys]\nquit = "j"\npair = "q"\nmark = "P"')
    found = read_keys()
    assert found.keymap == {"mark": "P"}
    assert found.errors == (
        "keys.toml: quit keeps q, because j belongs to down; pair keeps p, because q belongs to quit"
    )
    write('[keys]\nquit = "Q"\npair = "q"')
    assert read_keys() == ({"quit": "Q", "pair": "q"}, "")
    write("[keys]\nquit = 'escape'")
    assert "escape belongs to back" in read_keys().errors
    write('[keys]\ndown = "x"\nquit = "x"')
    assert len(read_keys().keymap) == 1


def test_a_missing_file_changes_no_key() -> None:
    assert read_keys() == ({}, "")
    path = configuration_path(KEYS_FILE)
    assert path is not None
    os.makedirs(path)
    assert "cannot read" in read_keys().errors


def test_help_of_an_action_is_that_of_its_own_key() -> None:
    # Several screens use o, s, n and z for different actions.
    assert help_text("fold-server") == "fold a server; or click its row"
    assert help_text("save").startswith("save an image")
    assert help_text("fit").startswith("fit: this")
    assert help_text("copy", "traffic", "c").startswith("copy as JSON")
    assert help_text("again", "findings", "c").startswith("check again")
    assert help_text("calls", "tools", "c") == "the calls of the tool"
    assert help_text("sessions") == "the list of sessions"
    assert help_text("unknown", "traffic", "Q") == ""
    # The same key in two sections: each screen's own text.
    assert help_text("export", "sessions", "e") == "export the capture, or a report"
    assert help_text("export", "traffic", "e") == "export the listed or marked rows"
    assert help_text("filter", "sessions", "slash") == "filter by words as you type"
    named = [name for row in ROWS for name in row.names.split()]
    assert sorted(set(named)) == sorted(named)
    assert set(named) <= set(default_keys())
    for row in ROWS:
        assert not row.names or len(row.names.split()) == len(row.keys.split()), row
