"""Every form, by its sample in tests/corpus/imports: it alone recognises it, and no change to it does any harm.

A sample is a small log without mistakes, `NAME.*`, with a few messages: `initialize`, or a call if the log has no more.
"""

import contextlib
import io
import json
import random
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.importers.conversations import MAX_CONVERSATIONS, MAX_OPEN_CONVERSATIONS
from mcpproxy.importers.form import forms
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, InvalidLine, Log
from tests.mcpproxy.importers.logs import ImportedLog, imported, recognised

FOLDER: Final = Path(__file__).parents[2] / "corpus/imports"
BINARY: Final = ("mitmproxy",)
"""Forms that are not text."""
WHOLE: Final = ("har", "inspector", "mcpjam")
"""Forms that are one JSON text."""


def sample_path(name: str) -> Path:
    """The sample of a form."""
    paths = list(FOLDER.glob(f"{name}.*"))
    assert len(paths) == 1, f"the form {name} needs one sample, tests/corpus/imports/{name}.*"
    return paths[0]


def sample(name: str) -> bytes:
    """Its bytes."""
    return sample_path(name).read_bytes()


def tried(name: str, data: bytes) -> ImportedLog | None:
    """Imports a log that may be refused, and checks that every line of every capture is a record."""
    try:
        result = imported(name, data, "log.txt")
    except InvalidLine:
        return None
    for capture in result.captures:
        stamps = [record.t_ns for record in capture.records]
        assert len(stamps) == len(capture.lines)
        assert stamps == sorted(stamps)
    return result


def raws(result: ImportedLog | None) -> list[bytes]:
    """The bytes of all frames."""
    return [frame.raw for capture in result.captures for frame in capture.frames] if result else []


def is_part(raw: bytes, frame: bytes) -> bool:
    """Whether a message has nothing that another lacks."""

    def holds(value: object, whole: object) -> bool:
        if isinstance(value, dict) and isinstance(whole, dict):
            return all(name in whole and holds(member, whole[name]) for name, member in value.items())
        if isinstance(value, list) and isinstance(whole, list):
            return len(value) <= len(whole) and all(map(holds, value, whole))
        return value == whole

    try:
        return holds(json.loads(raw), json.loads(frame))
    except ValueError:
        return False


@pytest.fixture(params=list(forms()))
def name(request: pytest.FixtureRequest) -> str:
    """The name of a form."""
    form: str = request.param
    return form


def test_a_sample_is_recognised_by_its_form_alone_and_imported_whole(name: str) -> None:
    assert recognised(sample(name), sample_path(name).name) == [name]
    assert recognised(sample(name)) == [name], "on stdin"
    result = imported(name, sample(name), sample_path(name).name)
    assert (result.left_out, len(result.captures)) == ([], 1)
    assert any(b'"initialize"' in raw or b'"tools/call"' in raw for raw in raws(result))
    assert result.captures[0].header["observed_start"] is True
    assert result.captures[0].header["imported"] == name


def test_a_log_cut_anywhere_is_imported_or_refused(name: str) -> None:
    data, whole = sample(name), raws(imported(name, sample(name)))
    for end in range(0, len(data), max(1, len(data) // 60)):
        for raw in raws(tried(name, data[:end])):
            assert any(frame.startswith(raw) or is_part(raw, frame) for frame in whole), raw


def test_line_ends_and_byte_order_marks_make_no_difference(name: str) -> None:
    if name in BINARY:
        return
    data, whole = sample(name), raws(imported(name, sample(name)))
    text = data.decode()
    for changed in (
        data.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + data,
        text.encode("utf-16"),
        b"\xfe\xff" + text.encode("utf-16-be"),
        text.replace("\n", "\r\n").encode("utf-16"),
        b"\n\n" + data + b"\n",
    ):
        assert recognised(changed) == [name], changed[:20]
        assert raws(imported(name, changed)) == whole, changed[:20]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"2026", b"9999"),
        (b"2026", b"0000"),
        (b"17951697", b"99951697"),
        (b"17951697", b"-9951697"),
        (b"17951697", b"00000000"),
        (b"files", b"\0\x1b]0;x\x07"),
        (b"files", b"\\u001b]0;x\\u0007\\u0000\\ud800"),
        (b"files", b"../../etc"),
        (b'"jsonrpc"', b'"jsonrpd"'),
        (b"{", b"[" * 2000 + b"{"),
        (b":", b": \0"),
        (b'"', b"'"),
        (b"1", b"1" * 400),
        (b"initialize", "\u2028\U0001f600".encode() * 3),
    ],
)
def test_wrong_values_are_left_out_or_imported(name: str, old: bytes, new: bytes) -> None:
    tried(name, sample(name).replace(old, new))


def test_any_changed_bytes_do_no_harm(name: str) -> None:
    choice = random.Random(47)
    for _ in range(60):
        data = bytearray(sample(name))
        for _ in range(choice.choice((1, 3, 20))):
            data[choice.randrange(len(data))] = choice.randrange(256)
        tried(name, bytes(data))


def test_mixed_forms_are_not_recognised_as_several(name: str) -> None:
    for other in forms():
        data = sample(name) + sample(other)
        assert recognised(data) in ([[name], [other]] if forms()[name].generality else [[name]]), other
        tried(name, data)


def test_logs_of_other_programs_are_read_around_lines_that_make_no_sense(name: str) -> None:
    if forms()[name].is_strict or name in (*BINARY, *WHOLE):
        return
    whole = raws(imported(name, sample(name)))
    for line in (b"\xff\0", b"[" * 100_000, b"{}", b'"x"', b"x" * 100_000, b"\x1b[31m"):
        result = tried(name, b"".join(line + b"\n" + old for old in sample(name).splitlines(keepends=True)))
        assert set(whole) <= set(raws(result)), line[:20]


class Endless(io.RawIOBase):
    """A file of some bytes and then many of one kind, which are never in memory together."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._left = data, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._data:
            piece, self._data = self._data[:size], self._data[size:]
            return piece
        piece = b"x" * min(size, self._left)
        self._left -= len(piece)
        return piece


def test_a_line_that_is_too_long_is_never_held(name: str) -> None:
    if name in BINARY:
        return
    start = sample(name)[:-1]
    file = Endless(start, MAX_INPUT_LINE_BYTES + (32 << 20))
    log = Log(file, "log.txt")  # type: ignore[arg-type] # all that is used of a file
    with contextlib.suppress(InvalidLine):
        assert sum(1 for _ in forms()[name].read(log)) < 10


def test_conversations_beyond_the_limit_are_left_out_and_files_closed() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
    result = imported("messages", line * (MAX_CONVERSATIONS + 5))
    assert len(result.captures) == MAX_CONVERSATIONS
    assert {left_out.reason for left_out in result.left_out} == {"the log contains more than 1,000 conversations"}
    assert MAX_OPEN_CONVERSATIONS < 256, "macOS"
