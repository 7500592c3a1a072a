"""Which tools are read-only for every reader of a recording."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.replay.tool_definitions import ToolDefinitions
from tests.analysis.store.capture_writer import CaptureWriter
from tests.mcpproxy.replay.replays import read_whole

READ = b'{"name":"read","annotations":{"readOnlyHint":true}}'
TWICE = b'{"name":"read","annotations":{"readOnlyHint":false},"annotations":{"readOnlyHint":true}}'


def listed(*tools: bytes, id_: int = 1) -> bytes:
    """Returns a list of tools."""
    return b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%b]}}' % (id_, b",".join(tools))


def definitions(folder: Path, *answers: bytes) -> ToolDefinitions:
    """Returns what a server defined that said these messages; the first answers tools/list, the others nothing."""
    capture = CaptureWriter(folder / "old.mcpcap", "weather")
    capture.handshake()
    capture.ask(20, 1, "tools/list")
    for raw in answers:
        capture.raw(20, "s2c", raw)
    script = read_whole(capture.close())
    try:
        return ToolDefinitions(script)
    finally:
        script.close()


def test_a_definition_counts_in_any_answer(tmp_path: Path) -> None:
    assert definitions(tmp_path, listed(READ)).is_read_only("read")
    assert definitions(tmp_path, listed(READ), listed(READ, id_=7), b"Loaded 5 tools").is_read_only("read")
    other = READ.replace(b"true", b"false")
    for answer in (
        listed(other),
        listed(b'{"name":"read"}', id_=77),
        b"[%b]" % listed(other),
        listed(other).replace(b"tools", b"t\\u006fols"),
        listed(other).replace(b"tools", b"Tools"),
        b"\xef\xbb\xbf" + listed(other),
        listed(other.replace(b"name", b"Name")),
        listed(b'{"name":"READ"}'),
        listed(b'{"name":"read "}'),
        listed('{"name":"\uff52ead"}'.encode()),
        listed(b'{"name":"read\\u0000"}'),
    ):
        assert not definitions(tmp_path, listed(READ), answer).is_read_only("read"), answer


def test_what_readers_see_differently_is_not_read_only(tmp_path: Path) -> None:
    for tool in (
        TWICE,
        READ.replace(b"true", b'false,"readOnlyHint":true'),
        READ.replace(b"true", b'true,"readonlyhint":false'),
        READ.replace(b"true", b'true,"read_only_hint":false'),
        READ.replace(b"true", b'true,"destructiveHint":true'),
        READ.replace(b"true", b'true,"destructiveHint":null'),
        READ.replace(b"true", b"1"),
        READ.replace(b"readOnlyHint", b"ReadOnlyHint"),
        READ.replace(b'"name"', b'"name":"write","name"'),
        READ.replace(b'"annotations"', b'"Annotations":{},"annotations"'),
    ):
        assert not definitions(tmp_path, listed(tool)).is_read_only("read"), tool
    for answer in (
        listed(READ).replace(b'"tools"', b'"tools":[{"name":"read"}],"tools"'),
        listed(READ).replace(b'"result"', b'"result":{"tools":[]},"result"'),
        listed(READ).replace(b'"result"', b'"RESULT":{},"result"'),
    ):
        assert not definitions(tmp_path, answer).is_read_only("read"), answer
    assert definitions(tmp_path, listed(READ.replace(b"true", b'true,"destructiveHint":false'))).is_read_only("read")


def test_names_are_compared_exactly(tmp_path: Path) -> None:
    known = definitions(tmp_path, listed(READ, READ.replace(b"read", "r\u00e9".encode(), 1)))
    assert known.is_read_only("r\u00e9")
    others: tuple[object, ...] = ("re\u0301", "READ", "read ", "read\0", "", None, ["read"], 1)
    for other in others:
        assert not known.is_read_only(other), other
    for name in (b"\\ud800", b"write\\u0000", b"x" * 2_000):
        given = json.loads(b'"%b"' % name)
        assert not definitions(tmp_path, listed(READ.replace(b"read", name, 1))).is_read_only(given)


def test_no_tool_is_read_only_if_a_list_cannot_be_read(tmp_path: Path) -> None:
    for answer in (
        listed(b'{"name":"write","inputSchema":%b%b}' % (b"[" * 100_000, b"]" * 100_000)),
        listed(b'{"name":"write"}')[:-1],
        listed(b'{"name":"write","x":"\xff"}'),
        listed(b'{"name":"write"}').decode().encode("utf-16"),
        listed(b'{"name":"write","x":"%b"}' % (b"x" * (17 << 20))),
        listed(b'{"name":"write"}') * 2,
        listed().replace(b"[]", b'{"read":{}}'),
    ):
        known = definitions(tmp_path, listed(READ), answer)
        assert not known.is_read_only("read"), answer[:100]
        assert known.doubt
    known = definitions(tmp_path, listed(READ), listed(READ)[:-1])
    assert known.doubt == "a list of tools may be in frame 6, which cannot be read"


@pytest.mark.parametrize("what", ["beginning", "gap", "damage", "part"])
def test_no_tool_is_read_only_if_messages_are_missing(tmp_path: Path, what: str) -> None:
    capture = CaptureWriter(tmp_path / "old.mcpcap", "weather", observed_start=what != "beginning")
    capture.handshake()
    capture.ask(20, 1, "tools/list")
    capture.raw(20, "s2c", listed(READ))
    lose: dict[str, Callable[[], object]] = {
        "gap": lambda: capture.record(20, "gap", reason="damage"),
        "part": lambda: capture.record(20, "frame", dir="s2c", kind="unjudged", parts=3, size=9),
    }
    lose.get(what, lambda: None)()
    path = capture.close()
    if what == "damage":
        path.write_bytes(path.read_bytes().replace(b"tools/list", b"tools/lisT", 1))
    script = read_whole(path)
    known = ToolDefinitions(script)
    script.close()
    assert not known.is_read_only("read")
    assert known.doubt == "messages are missing in the recording, and may have been lists of tools"
