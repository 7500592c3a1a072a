"""Entries in the logs of VS Code and Cursor. Cursor is a fork, so the entries have one format, with different texts."""

import re
from typing import Final, Literal, NamedTuple

from mcpproxy.importers.entries import sniffed_lines
from mcpproxy.importers.times import stamp_of_date

_ENTRY: Final = re.compile(
    rb"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) "
    rb"\[(?P<level>trace|debug|info|warning|error)\] (?P<text>[^\r\n]*)"
).match
VSCODE_WORDS: Final = re.compile(
    rb"\[(?:editor -> server|server -> editor|Client Says|Server Says|server stderr)\]|Connection state: "
    rb"|Starting server from |Failed to parse message: "
).match
CURSOR_WORDS: Final = re.compile(
    rb"(?:[^\r\n]{4}: )?(?:(?:Calling tool|Successfully called tool|Error calling tool) '"
    rb"|Client (?:closed|error) for command|Starting new stdio process with command|Handling \w+ action"
    rb"|listOfferings: Found|getOrCreateClient for|No server info found|Error in MCP: |Failed to reload client"
    rb"|Connected to \w+ server, fetching offerings|Successfully connected to \w+ server|Storing \w+ client"
    rb"|Reusing existing \w+ client|CreateClient completed|Found \d+ tools|Error (?:connecting|listing) "
    rb"|No stored tokens found|(?:Creating|Connecting to) \w+ (?:transport|server))"
).match


class EditorEntry(NamedTuple):
    """An entry of a log."""

    stamp_ns: int | None
    """Nanoseconds since 1970, assuming that the log is from this machine's time zone; None if the date is invalid."""
    is_error: bool
    text: bytes


def editor_entry(line: bytes) -> EditorEntry | None:
    """Returns the entry on a line, or None if the line is not an entry."""
    match = _ENTRY(line)
    if match is None:
        return None
    return EditorEntry(stamp_of_date(match["stamp"].decode(), is_local=True), match["level"] == b"error", match["text"])


def editor_of(head: bytes, *, is_named: bool) -> Literal["vscode", "cursor"] | None:
    """Returns which editor wrote a log, by the first text that only one of them writes, or None if neither did.

    Args:
        head: the beginning of the log.
        is_named: whether the file has the name of an editor's log. Such a file may begin in the middle of an entry.
    """
    lines = sniffed_lines(head, _ENTRY, is_named=is_named)
    for text in (match["text"] for line in lines if (match := _ENTRY(line))):
        if VSCODE_WORDS(text):
            return "vscode"
        if CURSOR_WORDS(text):
            return "cursor"
    return None
