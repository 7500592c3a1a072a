"""Traces of mcp-tape: every message comes back with its digits and its time, and what a trace lacks is told."""

import json
from pathlib import Path

import pytest

from captures.reader import Capture
from tests.harness import frames, records
from tests.mcpproxy.cli.typed import mcpproxy

OPENING = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"n":1.10,"big":12345678901234567890123}}'
TAPE = [
    '{"v":1,"type":"meta","startedAt":"2026-11-20T10:15:02.000Z","label":"files","command":["x"],"mcpTapVersion":"0.4"}',
    f'{{"t":"2026-11-20T10:15:02.123Z","dir":"in","raw":{OPENING}}}',
    f'{{"t":"2026-11-20T10:15:02.245Z","dir":"out","raw":{ANSWER}}}',
    '{"t":"2026-11-20T10:15:01.000Z","dir":"out","raw":[]}',
    '{"t":"2026-11-20T10:15:32.000Z","type":"end","exitCode":3,"durationMs":30000}',
]


def imported(tmp_path: Path, lines: list[str]) -> Path:
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    done = mcpproxy("import", "--from", "mcp-tape", tmp_path / "in.jsonl", "-o", tmp_path / "out.mcpcap")
    assert (done.returncode, done.stderr.decode()) == (
        0,
        "mcpproxy: mcp-tape does not record lines that are not JSON, stderr, or the original bytes\n",
    )
    assert mcpproxy("verify", tmp_path / "out.mcpcap").returncode == 0
    return tmp_path / "out.mcpcap"


def test_every_message_comes_back(tmp_path: Path) -> None:
    capture = imported(tmp_path, TAPE)
    assert [(frame.dir, frame.raw.decode(), frame.t_ns // 1_000_000) for frame in frames(capture)] == [
        ("c2s", OPENING, 0),
        ("s2c", ANSWER, 122),
        ("s2c", "[]", 122),  # a clock that was set back
    ]
    header = Capture(capture).header.members
    assert (header["imported"], header["name"], header["observed_start"]) == ("mcp-tape", "files", True)
    assert header["wall_ns"] == 1_795_169_702_123_000_000
    (ended,) = [record for record in records(capture) if record.rec == "process"]
    assert ended.members["status"] == 3


def test_a_rotated_trace_is_an_excerpt(tmp_path: Path) -> None:
    capture = imported(tmp_path, TAPE[2:4])
    assert Capture(capture).header.members["observed_start"] is False
    assert Capture(capture).header.members["name"] == "in"


def test_another_order_of_members_is_read_as_well(tmp_path: Path) -> None:
    line = json.dumps({"raw": json.loads(OPENING), "dir": "in", "t": "2026-11-20T10:15:02Z"})
    (frame,) = frames(imported(tmp_path, [line]))
    assert json.loads(frame.raw) == json.loads(OPENING)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("x", "line 1: not JSON"),
        ('{"dir":"up","raw":1,"t":"2026-11-20T10:15:02Z"}', "line 1: expected `in` or `out` in `dir`"),
        ('{"dir":"in","t":"2026-11-20T10:15:02Z"}', "line 1: expected a message in `raw`"),
        ('{"dir":"in","raw":{},"t":"x"}', "line 1: expected a date and time in `t`"),
        ('{"type":"meta","v":2}', "line 1: expected version 1 in `v`"),
        ('{"type":"end","exitCode":0}', "expected lines such as"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(line + "\n")
    done = mcpproxy("import", "--from", "mcp-tape", tmp_path / "in.jsonl", "-o", tmp_path / "out.mcpcap")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert why.encode() in done.stderr
    assert not (tmp_path / "out.mcpcap").exists()
