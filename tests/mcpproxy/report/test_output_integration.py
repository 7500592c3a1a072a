"""What stdout gets if it is not UTF-8, and that JSON is harmless to whoever prints it later."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from captures.record import members
from mcpproxy.report.output import json_line
from tests.captures.samples import frame, header, lines
from tests.mcpproxy.cli.typed import cold, mcpproxy

NAME = "größer-名-🥚"
ENCODINGS: dict[str, dict[str, Any]] = {
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "utf-16-le": {"PYTHONIOENCODING": "utf-16-le"},
}
C: dict[str, Any] = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""A locale whose only letters are those of ASCII, set as a command starts."""
TEXT = ["show", "show --color always", "ls", "info", "verify", "check --notes"]
JSON = ["show --json", "ls --json", "info --json", "verify --json", "check --json", "check --format sarif"]


def said(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A conversation with everything that is hard to print."""
    call = {"jsonrpc": "2.0", "id": NAME, "method": "tools/call", "params": {"name": NAME, "arguments": {"x": "→"}}}
    answer = {"jsonrpc": "2.0", "id": NAME, "error": {"code": -32602, "message": NAME, "data": 1}, "x": NAME}
    middles = [("header", header(name=NAME))]
    middles.append(("frame", frame("c2s", said(call))))
    middles += [("frame", frame("s2c", said(one))) for one in (answer, answer, {NAME: 1})]
    middles.append(("close", members(ending="server", status=0, totals={})))
    path = tmp_path / "a.mcpcap"
    path.write_bytes(b"".join(lines(middles)))
    return path


def is_legible(done: "subprocess.CompletedProcess[bytes]", command: str, encoding: str) -> bool:
    text = done.stdout.decode(encoding)
    is_named = "größer" in text or "gr\\xf6\\xdfer" in text or command == "verify"
    return done.returncode in (0, 1) and done.stderr == b"" and is_named


def test_text_is_legible_in_any_encoding(capture: Path) -> None:
    for command in TEXT:
        for encoding, environment in ENCODINGS.items():
            assert is_legible(mcpproxy(*command.split(), capture, **environment), command, encoding), (
                command,
                encoding,
            )


def test_what_programs_read_is_utf_8_in_any_encoding(capture: Path) -> None:
    for command in JSON:
        wanted = mcpproxy(*command.split(), capture).stdout
        for encoding, environment in ENCODINGS.items():
            done = mcpproxy(*command.split(), capture, **environment)
            assert (done.stdout, done.stderr) == (wanted, b""), (command, encoding)


def test_encodings_are_those_that_the_interpreter_starts_with(capture: Path) -> None:
    for environment in ENCODINGS.values():
        assert cold("show", capture, **environment).stdout == mcpproxy("show", capture, **environment).stdout
    assert is_legible(cold("show", capture, **C), "show", "ascii")
    done = cold("show", "--json", capture, **C)
    assert (done.stdout, done.stderr) == (mcpproxy("show", "--json", capture).stdout, b"")


@pytest.mark.soak
def test_all_is_legible_in_a_locale_without_letters(capture: Path) -> None:
    for command in TEXT:
        assert is_legible(cold(*command.split(), capture, **C), command, "ascii"), command
    for command in JSON:
        done = cold(*command.split(), capture, **C)
        assert (done.stdout, done.stderr) == (mcpproxy(*command.split(), capture).stdout, b""), command


def test_junit_and_annotations_are_utf_8_too(capture: Path) -> None:
    named = capture.rename(capture.with_name(f"{NAME}.mcpcap"))
    suite = ET.fromstring(mcpproxy("check", "--format", "junit", named, PYTHONIOENCODING="latin-1").stdout)[0]
    assert suite.attrib["name"] == str(named)
    done = mcpproxy("check", "--format", "github", named, PYTHONIOENCODING="latin-1")
    assert NAME in done.stdout.decode()


@pytest.mark.parametrize("words", [["ls", "--help"], ["rule"], ["rule", "jsonrpc/missing-version"]])
def test_help_and_rules_are_written_in_ascii(words: list[str]) -> None:
    done = mcpproxy(*words, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u" not in done.stdout


def test_our_own_signs_have_others_in_their_place(capture: Path) -> None:
    text = mcpproxy("show", capture, PYTHONIOENCODING="ascii").stdout.decode()
    assert " 1 >  tools/ca~ #" in text
    assert "\\u540d" in text


@pytest.mark.parametrize(
    "char",
    [
        *("\x7f", "\x80", "\x9b", "\xad", "\u061c", "\u200b", "\u200d", "\u200e", "\u2028", "\u2029", "\u202e"),
        *("\u2060", "\u2067", "\u3164", "\ufe0f", "\ufeff", "\U0001d173", "\U000e0041", "\U000e0100"),
    ],
)
def test_json_hides_nothing_from_whoever_prints_it(char: str) -> None:
    line = json_line({"a": f"x{char}y"})
    assert re.fullmatch(r'\{"a":"x(\\u[0-9a-f]{4})+y"\}\n', line)
    assert json.loads(line) == {"a": f"x{char}y"}


def test_json_of_findings_is_harmless_in_a_pipe(tmp_path: Path) -> None:
    raw = '{"jsonrpc":"2.0","id":1,"method":"tools/\u202ecall\u009b31m\u2028\u200b\U000e0041"}'.encode()
    path = tmp_path / "a.mcpcap"
    path.write_bytes(b"".join(lines([("header", header()), ("frame", frame("c2s", raw))])))
    for form in ("json", "sarif"):
        text = mcpproxy("check", "--format", form, path).stdout.decode()
        assert not {"\u202e", "\u009b", "\u2028", "\u200b", "\U000e0041"} & set(text)
    methods = {json.loads(line)["method"] for line in mcpproxy("check", "--json", path).stdout.splitlines()}
    assert "tools/\u202ecall\u009b31m\u2028\u200b\U000e0041" in methods
