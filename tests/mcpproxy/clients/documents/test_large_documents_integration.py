"""Large configuration files are edited or refused in time linear in their size."""

import json
import time

import pytest

from mcpproxy.clients.documents import json_faults
from mcpproxy.clients.documents.document import Document, Format
from mcpproxy.clients.documents.edits import ConfigError
from mcpproxy.clients.documents.json_faults import MAX_EXAMINED_CHARS
from tests.mcpproxy.clients.documents.test_documents import wrap

LARGE: list[tuple[Format, str, str]] = [
    ("json", '"a": 1 // no\n}', "line 2, column 8: a comment, which this client refuses"),
    ("json", '"a": 1,}', "line 2, column 7: a comma before a closing bracket, which this client refuses"),
    ("json", '"a" 1}', "line 2, column 5: expecting ':' delimiter"),
    ("jsonc", '"a": "NaN", "b": NaN /* , */ , }', "line 2, column 18: NaN is not JSON"),
    ("jsonc", f'"a": {"1" * 5000},}}', "a number has too many digits"),
    ("jsonc", '"a": ' + "[" * 100_000, "nested more than"),
]


@pytest.mark.parametrize("size", [20_000, MAX_EXAMINED_CHARS])
def test_a_large_file_that_does_not_parse_is_refused_with_its_place(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_faults, "MAX_EXAMINED_CHARS", size)
    for form, end, reason in LARGE if size < MAX_EXAMINED_CHARS else LARGE[:1]:
        with pytest.raises(ConfigError) as refused:
            Document(('{"h": ["' + "x" * size + '"],\n' + end).encode(), form)
        assert reason in str(refused.value), (form, end[:20])


@pytest.mark.parametrize("value", ["1", "[]", '{"a":1}'])
def test_a_dense_file_is_edited_in_a_time_like_that_of_reading_it(value: str) -> None:
    """A client may keep its history in the same file; a parser written in Python would take a hundred times as long."""
    text = f'{{"h": [{",".join([value] * 100_000)}], "m": {{"a": {{"command": "npx", "args": ["x"],}}}}}} // c'
    began = time.process_time()
    json.loads(f"[{','.join([value] * 100_000)}]")
    reading = time.process_time() - began
    after = Document(text.encode(), "jsonc").edited_bytes(wrap(("m", "a"), args=True))
    assert b'"args": ["run", "--name", "x y", "--", "npx", "x"],}' in after
    assert time.process_time() - began < 40 * reading + 1


HOSTILE = ("/*", '"\\"', ",/*c*/", "[ /*c*/", ", ", "[", "//", '/*"*/')


def refusing_s(unit: str, size: int) -> float:
    """Returns how long it takes to refuse a text of this size."""
    text = (unit * (size // len(unit))).encode()
    began = time.process_time()
    with pytest.raises(ConfigError):
        Document(text, "jsonc")
    return time.process_time() - began


@pytest.mark.parametrize("examined", [MAX_EXAMINED_CHARS, 1000])
def test_the_time_to_refuse_a_hostile_file_grows_with_its_size_and_no_faster(
    examined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_faults, "MAX_EXAMINED_CHARS", examined)
    for unit in HOSTILE:
        small = min(refusing_s(unit, 40_000) for _ in range(2))
        # Eight times the size; quadratic work would take sixty-four times as long.
        assert refusing_s(unit, 320_000) < 24 * small + 0.1, unit


@pytest.mark.soak
def test_a_hostile_file_of_megabytes_is_refused() -> None:
    for unit in HOSTILE:
        refusing_s(unit, 3_000_000)
