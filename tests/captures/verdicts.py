"""Shared by the tests of verdicts: frames with their verdicts, and strategies that generate more.

The cases are in `tests/corpus/envelope/frames.ndjson`, one per line: `raw` (or `raw_b64` if it is not UTF-8), `dir`,
`unit` (`line` if absent), `whole` (true if absent), and in `expect` the members of the envelope, `id` as its token.
"""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from captures.verdict import Direction, Envelope, Unit

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "envelope" / "frames.ndjson"


class Case(NamedTuple):
    name: str
    raw: bytes
    direction: Direction
    unit: Unit
    whole: bool
    expect: Envelope

    def verdict(self, judging: Callable[..., Envelope]) -> Envelope:
        return judging(self.raw, self.direction, self.unit, whole=self.whole)


def read_case(line: str) -> Case:
    row = json.loads(line)
    expect = row["expect"]
    token = expect.pop("id", None)
    return Case(
        name=row["name"],
        raw=base64.b64decode(row["raw_b64"]) if "raw_b64" in row else row["raw"].encode(),
        direction=row["dir"],
        unit=row.get("unit", "line"),
        whole=row.get("whole", True),
        expect=Envelope(
            **{**expect, "id": None if token is None else token.encode(), "omitted": tuple(expect.get("omitted", ()))}
        ),
    )


CASES: Final = [read_case(line) for line in CORPUS.read_text("utf-8").split("\n") if line]
SOUND: Final = [
    case.raw for case in CASES if case.expect.problem is None and case.expect.kind not in ("invalid", "batch")
]


def request(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x"} | members, separators=(",", ":")).encode()


# --- random messages ---

JSON_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "method", "error", "a", "é"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TOKENS: Final = st.one_of(
    JSON_VALUES.map(json.dumps),
    JSON_VALUES.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
    st.sampled_from(["0", "-0", "1", '"1"', "1.0", "1e2", "1.5", "2.0", "1e400", "NaN", "null", "{}", "[]", '""']),
    st.sampled_from(["9007199254740991", "9007199254740992", "18446744073709551616", '"\\ud800"', '"\\ud83d\\ude00"']),
    st.sampled_from(['"2.0"', '"2\\u002e0"', '"ping"', '"\\u0070ing"', '"rpc.x"', '"notifications/x"']),
    st.just('{"code":1,"message":"m"}'),
)
NAMES: Final = st.sampled_from(
    [
        '"jsonrpc"',
        '"id"',
        '"\\u0069d"',
        '"i\\u0064"',
        '"method"',
        '"met\\u0068od"',
        '"params"',
        '"result"',
        '"error"',
        '"x"',
    ]
)
GLUE: Final = st.sampled_from(["", "", "", " ", "\t", "\r\n"])


@st.composite
def objects_like_messages(draw: st.DrawFn) -> bytes:
    """The text of an object with mostly the members of a message, in any spelling and number."""
    members = [(draw(NAMES), draw(TOKENS)) for _ in range(draw(st.integers(0, 5)))]
    if draw(st.booleans()):
        members = [('"jsonrpc"', '"2.0"'), *members]
    between = draw(GLUE)
    text = f"{between},{between}".join(f"{name}{between}:{draw(GLUE)}{token}" for name, token in members)
    return f"{draw(GLUE)}{{{text}}}{draw(GLUE)}".encode()


@st.composite
def sound_messages(draw: st.DrawFn) -> dict[str, Any]:
    """A valid message with its members in any order."""
    ident = draw(st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=60))
    method = draw(st.text(min_size=1, max_size=60).filter(lambda name: not name.startswith(("rpc.", "notifications/"))))
    value = draw(st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=3))
    error = {"code": draw(st.integers(-(2**53) + 1, 2**53 - 1)), "message": draw(st.text(max_size=20)), "data": value}
    body: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"id": ident, "method": method, "params": value},
                {"id": ident, "method": method},
                {"method": method, "params": value},
                {"method": "notifications/" + method},
                {"id": ident, "result": value},
                {"id": ident, "error": error},
                {"error": error},
            ]
        )
    )
    members: list[tuple[str, Any]] = [("jsonrpc", "2.0"), *body.items()]
    return dict(draw(st.permutations(members)))


# --- hostile frames ---


def fill(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


# Each is hard for parsers that recurse, backtrack, count or copy for every token.
HOSTILE: Final[dict[str, Callable[[int], bytes]]] = {
    "opened arrays": lambda size: fill(b"[", size),
    "opened objects": lambda size: fill(b'{"a":', size),
    "opened arrays on lines": lambda size: fill(b"[\n", size),
    "many arrays": lambda size: b"[" + fill(b"[],", size) + b"1]",
    "many deep arrays": lambda size: b"[" + fill(b"[" * 400 + b"]" * 400 + b",", size) + b"1]",
    "many numbers": lambda size: b"[" + fill(b"1,", size) + b"1]",
    "many members": lambda size: b"{" + fill(b'"a":1,', size) + b'"a":1}',
    "many ids": lambda size: b"{" + fill(b'"id":1,', size) + b'"id":1}',
    "many codes": lambda size: b'{"error":{' + fill(b'"code":1,', size) + b'"code":1}}',
    "many values": lambda size: fill(b"1 ", size),
    "many objects on a line": lambda size: fill(b"{}", size),
    "quotes": lambda size: fill(b'"', size),
    "escaped quotes, unclosed": lambda size: b'"' + fill(b'\\"', size),
    "backslashes": lambda size: b'"' + fill(b"\\", size),
    "halves of pairs": lambda size: b'["' + fill(b"\\ud83d", size) + b'"]',
    "whole pairs": lambda size: b'["' + fill(b"\\ud83d\\ude00", size) + b'"]',
    "brackets in strings": lambda size: b"[" + fill(b'"[",', size) + b"1]",
    "spaces": lambda size: fill(b" ", size) + b"x",
    "newlines": lambda size: fill(b"\n", size) + b"x",
    "a long header": lambda size: b"content-length:" + fill(b"1", size) + b"x",
    "digits": lambda size: b'{"jsonrpc":"2.0","method":"x","id":' + fill(b"9", size) + b"}",
    "zeros behind the point": lambda size: b'{"jsonrpc":"2.0","method":"x","id":0.' + fill(b"0", size) + b"1}",
    "zeros of an exponent": lambda size: b'{"jsonrpc":"2.0","method":"x","id":1e' + fill(b"0", size) + b"1}",
    "nines of an exponent": lambda size: b'{"jsonrpc":"2.0","method":"x","id":1e-' + fill(b"9", size) + b"}",
    "colours": lambda size: fill(b"\x1b[2K", size),
    "not utf-8": lambda size: fill(b"a", size) + b"\xff",
}


# --- frames that are nearly valid ---

BYTES: Final = b'"\\{}[]:,.-0129eEintrfu \x00\n\r\x1f\x7f\xc3\xff'
"""The bytes that are put in place of another byte."""
STEP: Final = 13
"""The suite tries one in this many frames with one byte replaced; every byte value and position is included."""


def one_byte_off(step: int) -> Iterator[bytes]:
    """The table's short valid frames with one byte removed, and every `step`th of those with one byte replaced."""
    for raw in (raw for raw in SOUND if len(raw) < 120):
        yield from (raw[:at] + raw[at + 1 :] for at in range(len(raw)))
        for at, byte in list(product(range(len(raw)), BYTES))[::step]:
            yield raw[:at] + bytes([byte]) + raw[at + 1 :]
