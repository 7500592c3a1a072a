"""Random captures with conversations, odd frames and odd lines, for comparing the two ways of loading."""

import json
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

from captures.envelope import judge
from captures.record import frame_members, members, seal, stderr_members
from captures.verdict import Direction

MS: Final = 1_000_000
TEXTS: Final = (
    "",
    "a",
    "Zeile\nzwei",
    "naïve ☃",
    "😀" * 150,
    "x" * 400,
    "\x00nul",
    "\x1b[31m",
    "\x7f",
    '"quoted"',
    "a\\b",
    "a/b",
)
METHODS: Final = (
    *("tools/call",) * 6,
    *("tools/list",) * 2,
    *("ping", "resources/read", "prompts/get", "completion/complete", "resources/subscribe", "x/y", "résumé"),
)
REASONS: Final = (
    None,
    "",
    "user left",
    "Timed out",
    "time\u00a0out",
    "request TIMEOUT",
    "tım-out",
    "deadline",
    "x" * 2000,
    7,
)
TOKENS: Final = (1, 2, "t", "ü", 1.0, 1.5, True, None, 2**60, "a" * 300, "1", [1])
ODD: Final = (
    b"a log line",
    b"",
    b"   ",
    b"NaN",
    b'"text"',
    b"\xff\xfe not UTF-8",
    b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"bom"}',
    b'{"jsonrpc":"2.0","method":"twice","method":"twice"}',
    b'{"jsonrpc":"2.0","id":"twice","method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}',
    b'{"jsonrpc":"2.0","id":"below","method":"x","params":{"list":[{"\xc3\xa9":1},{"\xc3\xa9":1,"\\u00e9":2}]}}',
    b'{"jsonrpc":"2.0","id":"not","method":"x","params":{"list":[{"a":1},{"a":1,"b":{"a":":","c":"a:b"}}]}}',
    b'{"jsonrpc":"2.0","method":"n","params":{"x":NaN}}',
    b'{"jsonrpc":"2.0","method":"n","params":{"x":-Infinity}}',
    b'{"jsonrpc":"2.0","method":"c","params":{"x":[1,]}}',
    b'{"jsonrpc":"2.0","method":"c","params":{"x":1 , }}',
    b'{"jsonrpc":"2.0","method":"big","params":{"x":1e400,"y":123456789012345678901234567890}}',
    b'{"jsonrpc":"2.0","method":"deep","params":{"x":' + b"[" * 150 + b"]" * 150 + b"}}",
    b'{"jsonrpc":"2.0","method":"deeper","params":{"x":' + b"[" * 300 + b"]" * 300 + b"}}",
    b'{"jsonrpc":"2.0","method":"lone","params":{"x":"\\ud800"}}',
    b'{"jsonrpc":"2.0","method":"esc","params":{"na\\u006de":"x","\\/":1}}',
    b'{"jsonrpc":"1.0","method":"old"}',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":5}',
    b'{"jsonrpc":"2.0","method":"rpc.x"}',
    b'{"jsonrpc":"2.0","method":"null","params":null}',
    b'{"jsonrpc":"2.0","method":"array","params":[1]}',
    b'{"jsonrpc":"2.0","id":null,"method":"no/id"}',
    b'{"jsonrpc":"2.0","method":"cancelled","params":[1]}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","twice":1,"twice":2}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":"1"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"fraction"}',
    b'{"jsonrpc":"2.0","id":9007199254740993,"method":"unsafe"}',
    b'{"jsonrpc":"2.0","id":true,"method":"bool"}',
    b'{"jsonrpc":"2.0","id":"n","method":"notifications/with-id"}',
    b'{"jsonrpc":"2.0","method":"long' + b"g" * 300 + b'"}',
)
TORN: Final = (
    b'{"jsonrpc":',
    b"[]",
    b'[{"jsonrpc":"2.0","method":"x"}]',
    b'{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}',
)
TROUBLE: Final = (
    *(
        b"NaN",
        b"-Infinity",
        b"nan",
        b"-0",
        b"0",
        b"1e400",
        b"1.0",
        b"01",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'""',
        b'"id"',
    ),
    *(
        b",:",
        b"[",
        b"]",
        b"{",
        b"}",
        b" ",
        b"\t",
        b"\\",
        b"\\u0069",
        b"\\ud83d",
        b"\x00",
        b"\x1f",
        b"\xff",
        b"\xc3\xa9",
    ),
    *(
        b'"id":1,',
        b'"id":2,',
        b'"method":"ping",',
        b'"params":{},',
        b'"result":{},',
        b'"error":{},',
        b'"jsonrpc":"2.0",',
    ),
    *(b'"name":"n",', b'"progressToken":1,', b'"isError":true,', b'"io.modelcontextprotocol/x":1,', b'"\\u0069d":3,'),
)


class Maker:
    """Writes one capture, record by record."""

    transport = "stdio"

    def __init__(self, rng: Random, number: int = 0) -> None:
        self.rng = rng
        self.capture = f"{number:032x}"
        """The id of the capture."""
        self.seq = self.ns = 0
        self.lines: list[bytes] = []
        self.segments = [self.lines]
        """The lines of each segment; `lines` is the last of them."""
        self.header()
        self.say("c2s", id=0, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {}})
        self.say("s2c", id=0, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})
        self.say("c2s", method="notifications/initialized")
        self.number = 0
        self.open: dict[str, list[Any]] = {"c2s": [], "s2c": []}

    def header(self, *, capture: str = "", version: int = 1) -> None:
        number = len(self.segments)
        given = {"format": version, "capture": capture or self.capture, "segment": number, "observed_start": True}
        self.add("header", members(**given, transport=self.transport, wall_ns=1_795_000_000_000_000_000, name="n"))

    def begin_segment(self) -> None:
        """Begin the next file, without a header."""
        self.lines = []
        self.segments.append(self.lines)

    def next_segment(self) -> None:
        """End this file and begin the next one, as a recorder does."""
        self.add("close", members(ending="segment"))
        self.begin_segment()
        self.header()

    def add(self, rec: str, middle: bytes) -> None:
        self.lines.append(seal(self.seq, self.ns, rec, middle))
        self.seq += 1
        self.ns += self.rng.choice((0, 1, MS, 17 * MS, 6000 * MS))

    def raw(self, direction: Direction, raw: bytes, **more: Any) -> None:
        self.add("frame", frame_members(direction, raw, judge(raw, direction), **more))

    def place(self, direction: Direction) -> dict[str, Any]:
        """The connection and exchange of a frame, as arguments of `frame_members`."""
        return {}

    def say(self, direction: Direction, **message: Any) -> None:
        style = self.rng.choice(({"separators": (",", ":")}, {}, {"ensure_ascii": False, "separators": (",", ":")}))
        self.raw(direction, json.dumps({"jsonrpc": "2.0", **message}, **style).encode("utf-8", "surrogatepass"))

    def write(self, path: Path) -> Path:
        for number, lines in enumerate(self.segments, 1):
            file = path if number == 1 else path.with_suffix(f".{number}.mcpcap")
            file.write_bytes(b"".join(lines))
        return path

    # ---- a conversation

    def talk(self, steps: int, *, oddity: float = 0.03, trouble: float = 0.002) -> None:
        """Write `steps` steps; some are odd, and a few can only be understood by the fold."""
        for _ in range(steps):
            if self.rng.random() < trouble:
                self.rng.choice((self._reuse, self._stray, self._torn))()
            elif self.rng.random() < oddity:
                self.raw(self.rng.choice(("c2s", "s2c")), self.rng.choice(ODD))
            else:
                self.rng.choice(self._STEPS)(self)

    def _ask(self) -> None:
        side: Direction = self.rng.choice(("c2s", "c2s", "c2s", "s2c"))
        self.number += 1
        id_: Any = self.rng.choice((self.number, self.number, f"r{self.number}", f"ü{self.number}"))
        method = (
            self.rng.choice(METHODS)
            if side == "c2s"
            else self.rng.choice(("sampling/createMessage", "ping", "roots/list"))
        )
        params: dict[str, Any] = {}
        if self.rng.random() < 0.5:
            params["_meta"] = {"progressToken": self.rng.choice(TOKENS)}
        name = self.rng.choice(TEXTS)
        params |= self.rng.choice(
            (
                {"name": name},
                {"uri": name},
                {"ref": {"name": name}},
                {"ref": 1},
                {"name": 5, "uri": name},
                {},
                {"task": {}},
            )
        )
        self.open[side].append(id_)
        if self.rng.random() < 0.1:
            self.say(side, id=id_, method=method)
        else:
            self.say(side, id=id_, method=method, params=params)

    def _answer(self) -> None:
        side = self.rng.choice(("c2s", "s2c"))
        if not self.open[side]:
            return
        id_ = self.open[side].pop(self.rng.randrange(len(self.open[side])))
        back: Direction = "s2c" if side == "c2s" else "c2s"
        text = self.rng.choice(TEXTS)
        tool: dict[str, Any] = {
            "name": self.rng.choice(("a", "b")),
            "description": self.rng.choice(("", "d")),
            "inputSchema": {},
        }
        results: tuple[dict[str, Any], ...] = (
            {},
            {"content": [{"type": "text", "text": text}]},
            {"content": [{"type": "text", "text": text}], "isError": True},
            {"content": [{"type": "image"}, {"type": "text", "text": text}], "isError": True},
            {"content": text, "isError": True},
            {"content": [], "isError": "true"},
            {"tools": [tool]},
            {"tools": [tool], "nextCursor": text},
            {"tools": 5, "isError": False},
        )
        if self.rng.random() < 0.2:
            code = self.rng.choice((-32601, -32602, 7, 0))
            self.say(back, id=id_, error={"code": code, "message": text, "data": {"message": "no"}})
        else:
            self.say(back, id=id_, result=self.rng.choice(results))

    def _cancel(self) -> None:
        side: Direction = self.rng.choice(("c2s", "s2c"))
        ids = [*self.open[side], self.number, 10**6, 1.0, None, "nobody"]
        params: dict[str, Any] = {"requestId": self.rng.choice(ids)}
        reason = self.rng.choice(REASONS)
        if reason is not None:
            params["reason"] = reason
        self.say(side, method=self.rng.choice(("notifications/cancelled", "cancelled")), params=params)

    def _progress(self) -> None:
        params = {"progressToken": self.rng.choice(TOKENS), "progress": 1}
        self.say(self.rng.choice(("c2s", "s2c")), method="notifications/progress", params=params)

    def _notify(self) -> None:
        method = self.rng.choice(
            ("notifications/message", "notifications/initialized", "notifications/resources/updated")
        )
        self.say(self.rng.choice(("c2s", "s2c")), method=method, params={"uri": "u"})

    def _record(self) -> None:
        rec, middle = self.rng.choice(
            (
                ("stderr", stderr_members(self.rng.choice(TEXTS).encode())),
                ("signal", members(signal="SIGTERM")),
                ("process", members(event="spawned")),
                ("eof", members(dir="c2s")),
            )
        )
        self.add(rec, middle)

    def _stall(self) -> None:
        first = self.seq - 1 - self.rng.randrange(3)
        to = {"to": self.seq - 1} if self.rng.random() < 0.2 else {}
        waited = self.rng.choice((0, 5 * MS, 10**18))
        self.add("stall", members(dir=self.rng.choice(("c2s", "s2c")), of=max(0, first), waited_ns=waited, **to))

    _STEPS: Final = (*(_ask,) * 8, *(_answer,) * 8, _cancel, _cancel, _progress, _progress, _notify, _record, _stall)

    # ---- traffic that only the fold understands

    def _reuse(self) -> None:
        for side, ids in self.open.items():
            for id_ in ids[:1]:
                self.say("c2s" if side == "c2s" else "s2c", id=id_, method="ping")

    def _stray(self) -> None:
        self.say("s2c", id=self.rng.choice((10**7, f"{self.number}")), result={})

    def _torn(self) -> None:
        self.raw("s2c", self.rng.choice(TORN))

    # ---- frames and lines that no program writes by accident

    def mutate(self, count: int, *, lies: float = 0.3) -> None:
        """Write frames that are almost messages, some of them in records with false members."""
        samples = [json.loads(line)["raw"].encode() for line in self.lines if b'"raw":' in line]
        for _ in range(count):
            raw = bytearray(self.rng.choice(samples))
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                at = self.rng.randrange(len(raw) + 1)
                raw[at : at + self.rng.choice((0, 0, 1, 2, 5))] = self.rng.choice(TROUBLE)
            verdict = judge(bytes(raw), "c2s")
            if self.rng.random() < lies:
                verdict = judge(self.rng.choice(samples), "c2s")
            direction: Direction = self.rng.choice(("c2s", "s2c"))
            self.add("frame", frame_members(direction, bytes(raw), verdict, **self.place(direction)))

    def misspell(self) -> None:
        """Alter one line, and give it a correct checksum."""
        at = self.rng.randrange(4, len(self.lines))
        line = bytearray(self.lines[at][:-19])
        more = (
            b" ",
            b',"raw":"x"',
            b',"rec":"frame"',
            b',"seq":5',
            b',"seq":1e1',
            b"\\u0041",
            b"\\/",
            b"\xff",
            b',"x":1',
            b"\\ud800",
            b'"',
            b"\x01",
        )
        place = self.rng.choice((line.rfind(b'"'), line.find(b',"t_ns"'), len(line), self.rng.randrange(len(line))))
        line[place:place] = self.rng.choice(more)
        self.lines[at] = b'%b,"crc":"%08x"}\n' % (bytes(line), crc32(line))
