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


CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


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


def test_only_the_answer_to_a_request_for_the_list_calls_a_tool_read_only(tmp_path: Path) -> None:
    write = READ.replace(b"read", b"write", 1)
    call = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}'
    for is_asked, said in (
        (False, listed(write, id_=444)),
        (True, listed(write, id_=2)),
        (True, b"[%b]" % listed(write, id_=2)),
        (False, listed(write)),
    ):
        capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
        capture.handshake()
        capture.ask(20, 1, "tools/list")
        capture.raw(20, "s2c", listed(READ))
        if is_asked:
            capture.raw(21, "c2s", call)
        capture.raw(22, "s2c", said)
        script = read_whole(capture.close())
        known = ToolDefinitions(script)
        script.close()
        assert known.is_read_only("read"), said
        assert not known.is_read_only("write"), said
    assert not definitions(tmp_path, listed(READ).replace(b'"id":1', b'"id":2,"id":1')).is_read_only("read")


def test_a_definition_that_is_not_read_only_counts_anywhere(tmp_path: Path) -> None:
    other = listed(b'{"name":"read"}', id_=9)
    tools = b'{"tools":[{"name":"read"}]}'
    for said in (
        b"[[%b]]" % other,
        other.replace(b"tools", b"_tools"),
        other.replace(b"tools", b"t_ool_s"),
        CHANGED.replace(b"list_changed", b"x").replace(b"}", b',"params":%b}' % tools),
        b'{"jsonrpc":"2.0","id":9,"result":{"structuredContent":%b}}' % tools,
    ):
        assert not definitions(tmp_path, listed(READ), said).is_read_only("read"), said
    sampling = b'{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":%b}' % tools
    assert definitions(tmp_path, listed(READ), sampling).is_read_only("read"), "these are tools for the model"


def test_no_tool_is_read_only_if_the_tools_changed_and_were_not_all_listed_again(tmp_path: Path) -> None:
    def doubt(*said: bytes | str) -> str | None:
        capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
        capture.handshake()
        for each in said:
            if isinstance(each, bytes):
                capture.raw(20, "s2c", each)
            else:
                number, _, cursor = each.partition(" ")
                capture.ask(20, int(number), "tools/list", **({"cursor": cursor} if cursor else {}))
        script = read_whole(capture.close())
        known = ToolDefinitions(script)
        script.close()
        assert known.is_read_only("read") == (known.doubt is None)
        return known.doubt

    more = listed(READ).replace(b'"tools"', b'"nextCursor":"x","tools"')
    changed = "the tools changed in frame 6 and were not all listed again"
    assert doubt("1", listed(READ), CHANGED) == changed
    assert doubt("1", listed(READ), CHANGED, "2", listed(READ, id_=2)) is None
    assert doubt("1", more, CHANGED, "2 x", listed(READ, id_=2)) == changed, "only the rest"
    assert doubt("1", more, CHANGED, "2", more.replace(b'"id":1', b'"id":2')) == changed, "only the first page"
    assert doubt("1", listed(READ), b"[%b]" % CHANGED) == changed
    assert doubt(CHANGED, "1", more, "2 x", listed(READ, id_=2)) is None
    assert doubt("1", more) is None, "the tools on the first page are known"
    assert doubt("1", listed(READ), "2") == "the tools/list in frame 6 was not answered"
    assert doubt("1", listed(READ), "2", b'{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":""}}') is None


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
