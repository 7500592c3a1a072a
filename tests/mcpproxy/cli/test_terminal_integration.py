"""Untrusted text does not affect a terminal. These captures have every trick in every place that is shown."""

import json
import re
from pathlib import Path

import pyte
import pytest

from captures.record import members, stderr_members
from tests.captures.samples import frame, header, lines
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal

HOSTILE = [
    b"\x1b]0;owned\x07\x1b[2J\x1b[H",
    b"\x1b]52;c;b3duZWQ=\x07",
    "\x9b2J\x9d0;owned\x9c\x90q\x9c".encode(),
    b"\x9b31m\x9d0;owned\x07",
    "\u202egnp.exe\u2066\u200b\U000e0041".encode(),
    b"\x7f\x08\x08\x08\x0e\x0f\x05",
    ("e" + "\u0301" * 300).encode(),
]


def hostile_capture(path: Path) -> Path:
    """Markers in every place that is shown: names, methods, ids, arguments, errors, stderr, command line."""
    middles = [("header", header(name="\x1b]0;owned\x07srv\x9b2J", argv=["\x1b[2J\u202e"], cwd="\x9b31m"))]
    for raw in HOSTILE:
        quoted = json.dumps(raw.decode("utf-8", "replace")).encode()
        plain = json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=False).encode()
        for name in (quoted, plain):
            call = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":{"name":%b,"arguments":{%b:%b}}}'
            error = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-1,"message":%b}}'
            names = b'{"protocolVersion":%b,"clientInfo":{"name":%b}}' % (name, name)
            start = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%b}' % names
            middles.append(("frame", frame("c2s", start)))
            middles.append(("frame", frame("c2s", call % (name, name, name, name, name))))
            middles.append(("frame", frame("s2c", error % (name, name))))
        middles.append(("frame", frame("s2c", raw)))
        middles.append(("stderr", stderr_members(raw)))
    path.write_bytes(b"".join(lines([*middles, ("close", members(ending="server", status=0, totals={}))])))
    return path


ACTS = re.compile(
    "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|\u0301{9}"
)
"""Controls except line ends, bidirectional and invisible characters, and marks that paint over other lines."""

COMMANDS = ["show", "show --color always", "show --time abs", "show --json", "info", "verify", "ls", "stats"]
COMMANDS += ["stats --json", "stats --by client", "export OUT"]
SQL = ["from frames", "from stderr", "from errors", "select client_name, server_name from sessions", "from findings"]
SQL += ["select name, error, id from exchanges"]


@pytest.mark.parametrize("command", [command.split() for command in COMMANDS] + [["query", sql] for sql in SQL])
def test_no_payload_controls_the_terminal(tmp_path: Path, command: list[str]) -> None:
    capture = hostile_capture(tmp_path / "\x1b]0;owned\x07.mcpcap")
    words = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    output = on_terminal(*words, str(capture)).decode("utf-8")
    screen = pyte.Screen(80, 40)
    pyte.Stream(screen).feed(output)
    assert screen.title == ""
    assert ACTS.findall(re.sub(r"\x1b\[(?:0|2|35|36|1;31)m", "", output)) == []


@pytest.mark.parametrize("command", ["info --json", "ls --json", "verify --json", "show --json"])
def test_escapes_for_a_terminal_leave_json_what_it_was(tmp_path: Path, command: str) -> None:
    capture = hostile_capture(tmp_path / "hostile.mcpcap")
    for_terminal = on_terminal(*command.split(), str(capture)).split(b"\r\n")
    for_program = mcpproxy(*command.split(), capture).stdout.split(b"\n")
    assert [json.loads(line) for line in for_terminal if line] == [json.loads(line) for line in for_program if line]


def test_ordinary_text_stays_readable_in_json_on_a_terminal(tmp_path: Path) -> None:
    raw = '{"jsonrpc":"2.0","method":"größer e\u0301 สวัสดี 日本 🥚"}'.encode()
    path = tmp_path / "plain.mcpcap"
    path.write_bytes(b"".join(lines([("header", header()), ("frame", frame("s2c", raw))])))
    assert raw in on_terminal("show", "--json", str(path))
