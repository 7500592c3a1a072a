"""`mcpproxy` itself: which command is meant, the message if none is, and that errors are one line."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from captures.file import CaptureFile
from captures.paths import cache_directory
from mcpproxy import __version__
from mcpproxy.cli import COMMANDS
from mcpproxy.cli.command_line import grammars
from mcpproxy.cli.other_words import ADVICE_FOR_WORD
from tests.captures.samples import header, lines
from tests.harness import DEADLINE_S, ROOT
from tests.mcpproxy.cli.typed import cold, mcpproxy, started


def test_help_names_every_command() -> None:
    done = mcpproxy("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.findall(r"^  (\w+) +\S", done.stdout.decode(), re.MULTILINE) == list(COMMANDS)
    assert mcpproxy("help").stdout == mcpproxy("-h").stdout == done.stdout


def test_help_of_a_command_is_what_its_own_option_prints() -> None:
    for name in COMMANDS:
        done = mcpproxy("help", name)
        assert (done.returncode, done.stderr) == (0, b""), name
        assert done.stdout == mcpproxy(name, "--help").stdout, name


def test_help_of_itself_is_the_overview() -> None:
    for more in ("help", "--help", "-h"):
        assert mcpproxy("help", more).stdout == mcpproxy("--help").stdout, more


def test_help_of_what_is_no_command_is_one_line_and_exit_2() -> None:
    unknown = mcpproxy("help", "serv")
    assert (unknown.returncode, unknown.stdout) == (2, b"")
    assert unknown.stderr == mcpproxy("serv").stderr
    two = mcpproxy("help", "show", "ls")
    assert (two.returncode, two.stdout) == (2, b"")
    assert two.stderr == b"mcpproxy: help explains one command at a time: mcpproxy help show\n"


def test_no_command_is_help_and_wrong_usage() -> None:
    done = mcpproxy()
    assert done.returncode == 2
    assert done.stdout == mcpproxy("--help").stdout


def test_version_is_one_line() -> None:
    done = mcpproxy("--version")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"mcpproxy {__version__}\n", b"")


def test_unknown_command_is_one_line_and_exit_2() -> None:
    for name in ("serv", "Show", "--verbose", "", "show.py", "\x1b]0;x\x07", "output", "command_line"):
        done = mcpproxy(name)
        assert (done.returncode, done.stdout) == (2, b""), name
        assert re.fullmatch(rb"mcpproxy: there is no command [ -~]*; mcpproxy --help lists them\n", done.stderr), name


def test_a_mistyped_command_gets_a_suggestion() -> None:
    assert b"(did you mean check?)" in mcpproxy("chek").stderr
    for words, meant in (
        ("show --format jsn", "json"),
        ("show --tme rel", "--time"),
        ("show --filter kind:requst", "`request`"),
        ("cache cler", "clear"),
        ("run --fsync alway -- true", "always"),
        ("run --sumary -- true", "--summary"),
    ):
        done = mcpproxy(*words.split())
        assert (done.returncode, f"did you mean {meant}?" in done.stderr.decode()) == (2, True), words
    assert b"did you mean" not in mcpproxy("zzzz").stderr


def test_a_word_of_another_tool_leads_to_the_command_that_serves() -> None:
    for word, serves in (
        ("watch", "mcpproxy show --follow"),
        ("tail", "mcpproxy show --follow"),
        ("record", "mcpproxy run"),
        ("capture", "mcpproxy run"),
        ("proxy", "mcpproxy serve"),
        ("wrap", "mcpproxy install"),
        ("start", "mcpproxy install"),
        ("inspect", "mcpproxy tui"),
        ("log", "mcpproxy show"),
        ("diff", "mcpproxy compare"),
        ("resend", "mcpproxy show"),
        ("fake", "mcpproxy mock"),
        ("vcr", "mcpproxy share --cassette"),
        ("rm", "mcpproxy prune"),
    ):
        for words in ([word], [word, "--any", "thing"], ["help", word]):
            done = mcpproxy(*words)
            assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
            assert done.stderr.startswith(f"mcpproxy: there is no command {word}; ".encode()), words
            assert serves in done.stderr.decode(), words


def test_words_of_other_tools_are_no_commands_and_lead_to_what_exists() -> None:
    known = {command.name: {name for option in command.options for name in option.names} for command in grammars()}
    for word, advice in ADVICE_FOR_WORD.items():
        assert word not in {*COMMANDS, "help"}
        named = re.findall(r"mcpproxy ((?:--)?[a-z]+)((?: --[a-z-]+)*)", advice)
        assert named, word
        for command, options in named:
            assert command in {*COMMANDS, "help", "--version"}, word
            assert set(options.split()) <= known.get(command, set()), word


def test_every_command_has_a_help_that_refers_to_no_option_that_it_lacks() -> None:
    for name in COMMANDS:
        done = mcpproxy(name, "--help")
        assert (done.returncode, done.stderr) == (0, b""), name
        text = done.stdout.decode()
        assert f"usage: mcpproxy {name} " in text
        lines = [line for line in text.splitlines() if line.strip().startswith("--json")]
        assert ("the same as --format json" in "".join(lines)) <= ("--format {" in text), name


COLD_ELSEWHERE = [
    ["ls", "."],
    ["show", "demo.mcpcap"],
    ["export", "out", "demo.mcpcap"],
    ["query", "select count(*) as n from frames", "demo.mcpcap"],
    ["completion", "bash"],
    ["stats", "demo.mcpcap"],
    ["share", "demo.mcpcap", "-o", "copy.mcpcap"],
    ["scan", "demo.mcpcap"],
    ["report", "demo.mcpcap"],
    ["ship", "--unredacted", "lake", "demo.mcpcap"],
]
"""Commands that other tests start as a user would: the tests of endings, memory, full disks and the wheel.

They are the most expensive ones.
"""
FORKED = [
    ["info", "demo.mcpcap"],
    ["check", "demo.mcpcap"],
    ["rule", "id/null"],
    ["compare", "demo.mcpcap", "demo.mcpcap"],
    ["mock", "demo.mcpcap"],
    ["replay", "demo.mcpcap"],
    ["cache", "clear"],
    ["verify", "demo.mcpcap"],
    ["repair", "demo.mcpcap", "-o", "copy.mcpcap"],
    ["prune", "--keep", "0", "--dry-run", "."],
    ["import", "--from", "trace", "-o", "out/", "conversations"],
    ["install", "--dry-run"],
    ["uninstall", "--all"],
    ["status"],
    ["doctor", "--explain", "start/exits"],
    ["nonsense"],
]


@pytest.mark.costly("a dozen commands start as they do for a user")
@pytest.mark.parametrize("commands", [FORKED, pytest.param(COLD_ELSEWHERE, marks=pytest.mark.soak)])
def test_a_command_that_is_forked_does_what_it_does_for_a_user(
    tmp_path: Path, secret_rules: None, commands: list[list[str]]
) -> None:
    """Nearly all other tests fork commands, so they do not show how commands load what they need."""
    cache = cache_directory()
    assert cache is not None
    assert {words[0] for words in (*FORKED, *COLD_ELSEWHERE)} == {*COMMANDS, "nonsense"} - {
        "run",
        "serve",
        "up",
        "tui",
        "demo",
    }
    for words in commands:
        told = []
        for way in (mcpproxy, cold):
            folder = tmp_path / "here"
            folder.mkdir()
            shutil.copy(ROOT / "tests/corpus/captures/demo.mcpcap", folder)
            shutil.copy(ROOT / "tests/corpus/traces/cache.ndjson", folder / "conversations")
            # The secret rules, which take seconds to compile, are in the cache of this process.
            more: dict[str, Any] = {} if words[0] == "cache" else {"XDG_CACHE_HOME": str(Path(cache).parent)}
            done = way(*words, cwd=folder, HOME=str(folder), MCPPROXY_CAPTURES="captures", **more)
            made = sorted(path.suffix for path in folder.rglob("*"))
            told.append((done.returncode, done.stdout, done.stderr, made))
            shutil.rmtree(folder)
        assert told[0] == told[1], words


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--tail"],
        ["show", "--tail", "many"],
        ["show", "--tai", "3"],
        ["show", "--time", "utc"],
        ["show", "--no-such-option"],
        ["show", "--no-such-\x1b]0;x\x07"],
        ["ls", "--format", "yaml"],
        ["repair"],
        ["repair", "a", "b"],
        ["prune"],
        ["prune", "--older-than", "long"],
        ["ship"],
        ["ship", "ftp://host/place"],
        ["demo", "operand"],
        ["completion"],
        ["run", "--no-such-option", "--", "true"],
        ["run", "--no-such-option", "true"],
        ["run", "--"],
        ["run"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str]) -> None:
    done = mcpproxy(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert re.fullmatch(rb"mcpproxy: [ -~]+\n", done.stderr)


@pytest.mark.parametrize("name", ["show", "info", "verify"])
def test_no_captures_at_all_says_where_it_looked_and_how_to_make_one(tmp_path: Path, name: str) -> None:
    done = mcpproxy(name, HOME=str(tmp_path), MCPPROXY_CAPTURES=str(tmp_path / "elsewhere"))
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"there is no capture yet; looked in " in done.stderr
    for place in ("elsewhere", ".local/share/mcpproxy/captures"):
        assert str(tmp_path / place) in done.stderr.decode()
    assert b"mcpproxy demo" in done.stderr


def test_ls_of_nothing_tells_how_to_begin(tmp_path: Path) -> None:
    done = mcpproxy("ls", HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"mcpproxy run --" in done.stdout
    assert mcpproxy("ls", "--json", HOME=str(tmp_path)).stdout == b""


@pytest.mark.parametrize("name", ["no-such-server", "missing.mcpcap", "no/such/folder"])
def test_unknown_name_is_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    done = mcpproxy("show", name, cwd=tmp_path, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert name.encode() in done.stderr


def test_interrupt_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "live.mcpcap")
    file.append(lines([("header", header())])[0])
    with started("show", "--follow", "--json", file.path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
        assert process.stderr.read() == b""
    file.close()


def shell(script: str, home: Path) -> "subprocess.CompletedProcess[bytes]":
    """Returns a shell command line in which `$0` is Python."""
    command = ["sh", "-c", script, sys.executable]
    return subprocess.run(command, capture_output=True, env={"HOME": str(home), "PATH": os.environ["PATH"]})


@pytest.mark.parametrize("arguments", ["ls", "--help", "--version", "completion bash"])
def test_closed_stdout_is_told_in_one_line(tmp_path: Path, arguments: str) -> None:
    done = shell(f'exec "$0" -m mcpproxy {arguments} >&-', tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(rb"mcpproxy: [ -~]+\n", done.stderr)


def test_closed_stderr_leaves_the_exit_code_to_tell(tmp_path: Path) -> None:
    done = shell('exec "$0" -m mcpproxy show no-such-server 2>&-', tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("arguments", ["ls", "--help", "show --help", "completion bash"])
def test_reader_that_is_gone_ends_a_command_silently(tmp_path: Path, arguments: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "mcpproxy", *arguments.split()]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env={"HOME": str(tmp_path)})
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", ["ls", "--version", pytest.param("completion bash", marks=pytest.mark.soak)])
def test_full_disk_behind_stdout_is_told_in_one_line(tmp_path: Path, arguments: str) -> None:
    done = shell(f'exec "$0" -m mcpproxy {arguments} >/dev/full', tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(rb"mcpproxy: [ -Z^-~]+No space left on device\n", done.stderr)
