"""One record, one line: what is written is read back, and nothing else is taken for a record."""

import json
from functools import partial
from typing import Any
from zlib import crc32

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from captures import record
from captures.envelope import judge
from captures.record import (
    CRC_TAIL,
    LINE_START,
    MAX_LINE_BYTES,
    MAX_RAW_BYTES,
    Record,
    frame_members,
    line_members,
    members,
    part_members,
    raw_bytes,
    seal,
    seal_all,
    stderr_members,
    use_orjson,
)
from captures.verdict import UNJUDGED, Envelope
from tests.captures.samples import every_type

decode = partial(record.decode, offset=-1, loads=json.loads)

directions = st.sampled_from(["c2s", "s2c"])
text = st.text()
raws = st.binary() | text.map(str.encode) | st.sampled_from([b"", b"\r", b'{"seq":0}', b',"crc":"00000000"}'])
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=8)


@pytest.fixture(params=["json", "orjson"])
def escaper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Escapes strings with the slow encoder, or with orjson once it is in use."""
    monkeypatch.setattr(record, "_escape", record._escape_slowly)
    monkeypatch.setattr(record, "_encode", record._encode_slowly)
    if request.param == "orjson":
        use_orjson()
    return str(request.param)


def read(line: bytes) -> Record:
    """The record of a line, after checking the format's rules for lines."""
    assert line.endswith(b'"}\n')
    assert line.count(b"\n") == 1
    assert len(line) <= MAX_LINE_BYTES
    assert line.count(LINE_START) == 1
    assert line.startswith(LINE_START)
    line.decode()
    found, again = (decode(line[:-1], loads=loads) for loads in (json.loads, orjson.loads))
    assert found is not None, line
    assert again is not None, line
    return again


class TestRoundTrip:
    """Any bytes that are written are read back, with every encoder and every parser."""

    @pytest.mark.parametrize("orjson_loaded", [False, True])
    @given(
        raw=raws,
        direction=directions,
        delim=st.sampled_from([b"\n", b"\r\n", b""]),
        whole=st.booleans(),
        conn=st.integers(0, 2**40),
        exchange=st.none() | st.integers(1, 2**40),
        unit=st.sampled_from(["line", "http_body", "sse_event"]),
        event_id=st.none() | text,
        event=st.none() | text,
        id_again=st.booleans(),
        seq=st.integers(0, 2**63),
        t_ns=st.integers(0, 2**63),
    )
    def test_a_frame_of_any_bytes_and_members(
        self, orjson_loaded: bool, raw: bytes, seq: int, t_ns: int, **how: Any
    ) -> None:
        direction = how.pop("direction")
        verdict = judge(raw, direction, how["unit"], whole=how["whole"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record, "_escape", orjson.dumps if orjson_loaded else record._escape_slowly)
            found = read(seal(seq, t_ns, "frame", frame_members(direction, raw, verdict, **how)))
        got = found.members
        assert (found.seq, found.rec, found.t_ns) == (seq, "frame", t_ns)
        assert raw_bytes(got) == raw
        assert got["size"] == len(raw)
        assert ("raw" in got) == _is_text(raw)
        assert (got["dir"], got.get("conn", 0), got.get("exchange")) == (direction, how["conn"], how["exchange"])
        assert (got.get("unit", "line"), got.get("event_id")) == (how["unit"], how["event_id"])
        assert (got.get("event"), got.get("id_again", False)) == (how["event"], how["id_again"])
        assert got.get("delim", "\n").encode() == how["delim"]
        assert got.get("whole", True) is how["whole"]
        assert (got["kind"], got.get("method"), got.get("code"), got.get("problem")) == (
            verdict.kind,
            verdict.method,
            verdict.code,
            verdict.problem,
        )
        assert tuple(got.get("omitted", ())) == verdict.omitted
        assert ("id" in got) == (verdict.id is not None)

    @given(raws, directions)
    @example(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}', "s2c")
    @example(b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}', "c2s")
    def test_the_short_way_of_a_line_writes_the_same_bytes(self, raw: bytes, direction: Any) -> None:
        verdict = judge(raw, direction)
        assert line_members(direction, raw, verdict) == frame_members(direction, raw, verdict)

    @given(st.lists(raws), st.integers(0, 2**63), st.integers(0, 2**63), st.sampled_from(["frame", "x_any"]))
    def test_many_records_are_sealed_as_each_by_itself(self, raws: list[bytes], seq: int, t_ns: int, rec: str) -> None:
        middles = [frame_members("c2s", raw, UNJUDGED) for raw in raws]
        one_by_one = [seal(seq + n, t_ns, rec, middle) for n, middle in enumerate(middles)]
        assert seal_all(seq, t_ns, rec, middles) == b"".join(one_by_one)

    @given(raws, st.integers(1, 2**31), directions, st.integers(0, 9), st.none() | st.integers(1, 9))
    def test_a_part(self, raw: bytes, number: int, direction: Any, conn: int, exchange: int | None) -> None:
        got = read(seal(3, 4, "part", part_members(direction, number, raw, conn=conn, exchange=exchange))).members
        assert (got["part"], raw_bytes(got), got["size"]) == (number, raw, len(raw))
        assert (got["dir"], got.get("conn", 0), got.get("exchange")) == (direction, conn, exchange)

    @given(raws, st.sampled_from([b"\n", b"\r\n", b""]), st.booleans(), st.integers(0, 2**40))
    def test_stderr(self, raw: bytes, delim: bytes, whole: bool, skipped: int) -> None:
        got = read(seal(3, 4, "stderr", stderr_members(raw, delim=delim, whole=whole, skipped=skipped))).members
        assert (raw_bytes(got), got.get("delim", "\n").encode(), got.get("skipped", 0)) == (raw, delim, skipped)

    @given(st.dictionaries(text.filter(lambda name: name not in ("seq", "rec", "t_ns", "crc")), values, max_size=5))
    @example({"env": {"seq": "hmac:0123456789abcdef"}})
    @example({"x": [{"seq": {"seq": 1}}]})
    @example({"cwd": b"/tmp/\xff\n"})
    @example({"name": "half a pair: \udc80"})
    def test_members_of_any_other_record(self, fields: dict[str, Any]) -> None:
        got = read(seal(1, 2, "x_any", members(**fields))).members
        for name, value in fields.items():
            if value is None:
                assert name not in got
            elif "cwd" not in fields and "name" not in fields:
                assert got[name] == value

    def test_a_frame_in_parts_holds_no_bytes_of_its_own(self) -> None:
        got = read(seal(1, 2, "frame", frame_members("s2c", b"ignored", UNJUDGED, parts=(3, 3 << 20)))).members
        assert (got["parts"], got["size"]) == (3, 3 << 20)
        assert raw_bytes(got) is None

    def test_numbers_above_32_bits(self) -> None:
        assert read(seal(2**33, 2**62, "eof", members(dir="c2s", by="sender", bytes=2**45))).seq == 2**33


@pytest.mark.parametrize("fill", [b"\x00", b"\x1f", b'"', b"\\", b"\xff", b"x", "€".encode()])
def test_the_largest_frame_fits_into_a_line(fill: bytes, escaper: str) -> None:
    raw = (fill * MAX_RAW_BYTES)[:MAX_RAW_BYTES]
    verdict = Envelope(
        "request", id=b'"' + b"i" * 254 + b'"', method="\x1f" * 256, problem="p" * 64, omitted=("id", "method")
    )
    line = seal(
        2**63, 2**63, "frame", frame_members("c2s", raw, verdict, delim=b"\r\n", exchange=2**63, event_id="\x00" * 9000)
    )
    assert raw_bytes(read(line).members) == raw


class TestDamage:
    """A line that differs in any way from what was written is not a record."""

    LINES = every_type()

    def test_every_flipped_bit_of_every_record_type_is_noticed(self) -> None:
        for line in self.LINES:
            body = line[:-1]
            for bit in range(len(body) * 8):
                damaged = bytearray(body)
                damaged[bit >> 3] ^= 1 << (bit & 7)
                assert decode(bytes(damaged)) is None, (body, bit)

    def test_every_beginning_and_every_end_of_a_line_is_none(self) -> None:
        for line in self.LINES:
            body = line[:-1]
            for at in range(len(body)):
                assert decode(body[:at]) is None
                assert at == 0 or decode(body[at:]) is None
            assert decode(line) is None  # with its LF

    @given(st.binary(max_size=200))
    def test_any_bytes_are_judged_without_raising(self, junk: bytes) -> None:
        assert decode(junk) is None
        decode(checked(junk))
        decode(checked(LINE_START + junk))
        decode(checked(b'{"seq":1,"rec":"frame","t_ns":1,' + junk), loads=orjson.loads)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"seq":-1,"rec":"frame","t_ns":0',
            b'{"seq":true,"rec":"frame","t_ns":0',
            b'{"seq":1.0,"rec":"frame","t_ns":0',
            b'{"seq":"1","rec":"frame","t_ns":0',
            b'{"seq":1e400,"rec":"frame","t_ns":0',
            b'{"seq":1,"rec":5,"t_ns":0',
            b'{"seq":1,"rec":null,"t_ns":0',
            b'{"seq":1,"t_ns":0',
            b'{"seq":1,"rec":"frame"',
            b'{"seq":1,"rec":"frame","t_ns":-5',
            b'{"seq":1,"rec":"frame","t_ns":0,"seq":[]',
            b'{"seq":1,"rec":"frame","t_ns":0}{"a":1',
            b'{"seq":1,"rec":"frame","t_ns":0,"deep":' + b"[" * 100_000 + b"]" * 100_000,
            b'{"seq":1,"rec":"frame","t_ns":' + b"9" * 10_000,
            b'{"seq":1,"rec":"frame","t_ns":0,"x":"\xff"',
            b'{"seq": 1,"rec":"frame","t_ns":0,,',
        ],
    )
    @pytest.mark.parametrize("loads", [json.loads, orjson.loads])
    def test_fixed_members_of_a_wrong_type_make_no_record(self, body: bytes, loads: Any) -> None:
        assert decode(checked(body), loads=loads) is None

    def test_the_checksum_is_compared_as_bytes(self) -> None:
        bodies = (b'{"seq":%d,"rec":"x","t_ns":0' % n for n in range(1000))
        body = next(body for body in bodies if "a" in f"{crc32(body):08x}")
        assert decode(checked(body)) is not None
        assert decode(checked(body)[:-CRC_TAIL] + checked(body)[-CRC_TAIL:].upper()) is None


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"raw": None},
        {"raw": 7},
        {"raw_b64": 7},
        {"raw_b64": "a"},
        {"raw_b64": "ü==="},
        {"raw_b64": "YQ==\n"},
        {"raw_b64": "Y Q=="},
        {"raw": "half a pair: \udc80"},
        {"raw": ["a"], "raw_b64": None},
    ],
)
def test_bytes_that_are_not_there_are_not_guessed(held: dict[str, Any]) -> None:
    assert raw_bytes(held) is None


def checked(body: bytes) -> bytes:
    """A line with a correct checksum, for any body."""
    return b'%b,"crc":"%08x"}' % (body, crc32(body))


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
