"""Messages of which only a part is known: whatever the part, what comes out is JSON, and only what was there."""

import json
from typing import Any, Final

from mcpproxy.importers.partial_messages import complete_message

OMISSION = "...[9 chars truncated]..."
WHOLE: Final = {
    "jsonrpc": "2.0",
    "id": 7,
    "result": {
        "n": [1, -2.5e-7, True, False, None, [], {}, [[{"a": "b"}]]],
        "t": ['q"u\\o\n', "\u00e9\u2028", "\U0001f600", "", "}]"],
        '\U0001f600"': {"last": 1},
    },
}


def test_a_cut_text_ends_in_the_omission_and_later_members_are_absent() -> None:
    message = '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"one two three"}],"isError":false}}'
    head = message[: message.index(" three")]
    assert complete_message(head, OMISSION) == (
        b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"one two' + OMISSION.encode() + b'"}]}}'
    )


def test_an_id_at_the_end_is_kept() -> None:
    head, tail = (
        '{"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":',
        '2}},"jsonrpc":"2.0","id":"x7"}',
    )
    assert json.loads(complete_message(head, OMISSION, tail) or b"") == {
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1}},
        "id": "x7",
    }


def test_a_hole_within_a_text_leaves_everything_else() -> None:
    head, tail = '{"jsonrpc":"2.0","id":1,"result":{"a":"one', 'three","b":[true]}}'
    assert complete_message(head, OMISSION, tail) == (head + OMISSION + tail).encode()


def test_too_little_is_no_message() -> None:
    for head in ("", "{", '{"jsonrpc":"2.0","id":1', "[", '{"jsonrpc":"2.0","id":1,"resul', "hello", '{"a":1}}', "]"):
        assert complete_message(head, OMISSION) is None, head


def test_any_beginning_of_a_message_gives_json_with_its_first_values() -> None:
    for is_ascii in (True, False):
        text = json.dumps(WHOLE, ensure_ascii=is_ascii, separators=(",", ":"))
        for end in range(len(text)):
            raw = complete_message(text[:end], OMISSION)
            if raw is None:
                assert end < len('{"jsonrpc":"2.0","id":7,"result":{')
            else:
                assert _is_part(json.loads(raw), WHOLE), text[:end]


def _is_part(part: Any, whole: Any) -> bool:
    """Whether a value is the beginning of another."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and _is_part(value, whole[name]) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return part == whole or (part.endswith(OMISSION) and whole.startswith(part.removesuffix(OMISSION)))
    return bool(part == whole)
