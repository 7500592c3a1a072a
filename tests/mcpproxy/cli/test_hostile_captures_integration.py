"""The reading commands on forged captures (valid checksums around senseless members) and on randomly damaged ones.

Regardless of what a file holds, a command ends with one of its exit codes, and what it prints as JSON is JSON.
"""

import contextlib
import io
import json
import random
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from mcpproxy.cli.diagnostics import run_guarded
from tests.captures.samples import every_type
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.tui.stage import captured

COMMANDS = ["show", "show --json", "show --time abs", "show --tail 3", "info", "info --json", "verify", "verify --json"]
COMMANDS += ["ls", "ls --json", "repair"]
OF_TABLES = ["stats", "stats --json", "query", "query --json", "export", "export --format csv"]
OF_TABLES += [f"export --format {form}" for form in ("otlp", "har", "perfetto", "markdown")]
"""These load a database, so only every twelfth capture is tested."""

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1 << 62,
    1 << 63,
    (1 << 64) - 1,
    1.5,
    1e308,
    "",
    "x" * 3000,
    "\x1b]0;x\x07",
    "\u202e",
]
ODD += [[], [1, [2]], {}, {"seq": 1}, {"a": {"b": [None]}}, "c2s", "s2c", "SIGTERM", "9" * 400]
NAMES = [
    "argv",
    "cause",
    "code",
    "conn",
    "delim",
    "dir",
    "errno",
    "event",
    "exchange",
    "first",
    "format",
    "id",
    "kind",
    "last",
    "lost",
    "name",
    "of",
    "parents",
    "part",
    "parts",
]
NAMES += [
    "problem",
    "request",
    "response",
    "flags",
    "ended_by",
    "stage",
    "error",
    "uri_key",
    "metadata",
    "raw",
    "raw_b64",
    "reason",
    "rec",
    "segment",
    "signal",
    "size",
    "skipped",
    "status",
    "t_ns",
    "to",
    "totals",
    "unit",
    "wall_ns",
    "whole",
    "x_new",
]
INNER = ("headers", "method", "target", "bytes", "c2s", "exe", "frames", "other", "pid", "records", "s2c", "start")


def line_of(members: dict[str, Any]) -> bytes:
    body = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")[:-1]
    return body + b',"crc":"%08x"}\n' % crc32(body)


def twisted(line: bytes, chance: random.Random) -> bytes:
    """Returns a record with a valid checksum and up to three members that make no sense."""
    members = json.loads(line)
    del members["crc"]
    for _ in range(chance.randint(1, 3)):
        inner = {name: chance.choice(ODD) for name in chance.sample(INNER, 4)}
        members[chance.choice([*members, *NAMES])] = chance.choice([*ODD, inner])
    return line_of({"seq": members.pop("seq"), **members})


def made_up(chance: random.Random) -> bytes:
    lines = every_type()
    for at in chance.sample(range(len(lines)), 3):
        lines[at] = twisted(lines[at], chance)
    rotten = bytearray(b"".join(lines))
    for _ in range(chance.choice((0, 0, 5))):
        rotten[chance.randrange(len(rotten))] = chance.randrange(256)
    return bytes(rotten)


@pytest.mark.costly("every reading command is run, those that load a database too")
@pytest.mark.parametrize("seed", [*range(12), *[pytest.param(seed, marks=pytest.mark.soak) for seed in range(12, 40)]])
def test_commands_end_cleanly_on_any_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.chdir(tmp_path)
    capture = tmp_path / "made-up.mcpcap"
    capture.write_bytes(made_up(random.Random(seed)))
    for command in COMMANDS + (OF_TABLES if seed % 12 == 0 else []):
        name, *options = command.split()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            given = {"query": ["from frames"], "export": [str(tmp_path / f"out-{'-'.join(options)}")]}.get(name, [])
            code = run_guarded(import_module(f"mcpproxy.cli.{name}").run, [*options, *given, str(capture)], name)
        assert code in (0, 2, 3), command
        printed = output.getvalue()
        assert printed.encode() or code == 2
        if "--json" in options:
            assert all(isinstance(json.loads(line), dict) for line in printed.split("\n")[:-1])


@pytest.mark.parametrize("command", ["ls", "show", "verify", "stats", "query"])
def test_a_link_that_leads_in_a_circle_is_told_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    root = tmp_path / "all"
    captured(root)
    (root / "loop.mcpcap").symlink_to("loop.mcpcap")
    told = b"mcpproxy: cannot read " + bytes(root / "loop.mcpcap") + b": Too many levels of symbolic links\n"
    given = ["from frames select count(*) as n"] if command == "query" else []
    monkeypatch.setenv("HOME", str(tmp_path))
    done = mcpproxy(command, *given, *([str(root)] if command != "ls" else []), MCPPROXY_CAPTURES=str(root))
    assert (done.returncode, complaints(done)) == (2, told)
    assert done.stdout
    # Nor does it stop a command that names another capture.
    assert complaints(mcpproxy(command, *given, "library", MCPPROXY_CAPTURES=str(root))) == b""
