"""Hostile texts: what a server may send to make a terminal, a screen or a shell do something."""

import json
from pathlib import Path

from captures.record import members, stderr_members
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import END, FINE, INITIALIZED, Middles, frame_record, record

EVIL = "EVIL"
"""The word that most payloads contain, so that an effect on the terminal can be recognised."""

HOSTILE = [
    "\x1b]52;c;RVZJTA==\x07", "\x1b]0;EVIL\x1b\\", "\x1b]8;;http://EVIL\x1b\\link\x1b]8;;\x1b\\", "\x1bPEVIL\x1b\\",
    "\x9d52;c;EVIL\x9c", "\x9bEVILm", "\x1b[2J\x1b[HEVIL", "\x7f\x08\x0b\x0c", "\u202eEVIL\u202c", "\u2066EVIL\u2069",
    "\u200bEVIL\u200d", "\U000e0045\U000e0056", "[/EVIL]", "[@click=app.quit]EVIL[/]", "[link=http://EVIL]x[/link]",
    "\\[",
    "[b", "[/", "$EVIL", "e" + "\u0301" * 10_000, "👩‍👩‍👧‍👦🇩🇪" * 20, "\r\nEVIL", "\ud7b0" * 50,
]  # fmt: skip

HOSTILE_NAMES = [
    *("\x1b]52;c;aGk=\x07", "[/][@click=app.quit]x", "\u202egnp", "漢字" * 40, "x" * 10_000),
    *("", 'a b"c\\d', "\ud800"),
]


def calling(name: str, id_: int) -> bytes:
    """A call of a tool with the given name."""
    params = {"name": name, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}).encode()


def hostile_calls() -> Middles:
    """Calls of tools with names that try to be something else."""
    made: Middles = [("header", header(name="x"))]
    for number, name in enumerate(HOSTILE_NAMES):
        made += [frame_record("c2s", calling(name, number)), frame_record("s2c", FINE % (number, number))]
    return made


def hostile(folder: Path) -> Path:
    """Write a capture in which everything that a peer can choose is hostile; returns its path."""
    client = {"name": HOSTILE[0] + HOSTILE[8], "version": HOSTILE[5]}
    asked = {"protocolVersion": HOSTILE[1], "clientInfo": client, "capabilities": {}}
    first = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": asked}, ensure_ascii=False)
    middles = [
        ("header", header(name="".join(HOSTILE[:12])[:60])),
        frame_record("c2s", first.encode()),
        frame_record("s2c", INITIALIZED),
    ]
    for number, text in enumerate(HOSTILE, 1):
        call = {
            "jsonrpc": "2.0",
            "id": text[:40],
            "method": "tools/call",
            "params": {"name": text, text[:200]: {text[:90]: [text]}},
        }
        middles.append(frame_record("c2s", json.dumps(call, ensure_ascii=False).encode("utf-8", "surrogatepass")))
        error = {"jsonrpc": "2.0", "id": text[:40], "error": {"code": number, "message": text, "data": [text]}}
        middles.append(frame_record("s2c", json.dumps(error, ensure_ascii=False).encode("utf-8", "surrogatepass")))
        middles.append(frame_record("s2c", text.encode("utf-8", "surrogatepass")))
        middles.append(("stderr", stderr_members(text.encode("utf-8", "surrogatepass"))))
        middles.append(
            frame_record("c2s", json.dumps({"jsonrpc": "2.0", "method": text or "x"}, ensure_ascii=False).encode())
        )
    middles.append(("process", members(event="ended", signal=HOSTILE[0])))
    return record(folder / "h\x1b]0;EVIL\x07" / "x\x1b[2J\u202e.mcpcap", [*middles, END])
