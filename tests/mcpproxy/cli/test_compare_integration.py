"""`mcpproxy compare` as a process: its sides, what it writes, and its exit codes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from mcp import Client, MCPError

from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import DEADLINE_S, ROOT, wait_until
from tests.mcpproxy.cli.test_follow_integration import Growing
from tests.mcpproxy.cli.typed import mcpproxy, python
from tests.mcpproxy.test_sdk_integration import recorded
from tests.mcpproxy.tui.stage import conversation

DEMO: Final = ROOT / "tests/corpus/captures/demo.mcpcap"
CORPUS: Final = DEMO.parent
SERVER: Final = ROOT / "tests/peers/library_server.py"
STAMPS: Final = {"1": "20261121T101501Z-0001", "1-again": "20261121T101502Z-0002", "2": "20261121T101503Z-0003"}
IN_SMALL_FILES: Final = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command that cannot write a file of more than half a KiB."""


# ---- two versions of a real server


class Library:
    """Captures of the two versions of a server, and of a second session of the first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.captures = {version: root / "library" / f"{stamp}.mcpcap" for version, stamp in STAMPS.items()}
        self.old, self.again, self.new = self.captures.values()


async def use_library(client: Client) -> None:
    """Use every tool of the first version."""
    await client.list_tools()
    await client.list_prompts()
    await client.list_resources()
    await client.list_resource_templates()
    for name, arguments in (
        ("search", {"query": "whales"}),
        ("count", {}),
        ("rate", {"title": "Emma", "mood": "sad"}),
        ("lend", {"title": "Emma"}),
    ):
        try:
            await client.call_tool(name, arguments)
        except MCPError:
            continue  # the second version no longer has the tool


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    made = Library(tmp_path_factory.mktemp("captures"))
    (made.root / "library").mkdir()

    async def use(version: str, path: Path) -> None:
        async with recorded([sys.executable, str(SERVER), version], path, "legacy") as client:
            await use_library(client)

    for version, path in made.captures.items():
        anyio.run(use, version, path)
    return made


def compare(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    """Run `compare`; returns its exit code, stdout and stderr."""
    done = mcpproxy("compare", *arguments, stdin=b"", cwd=None, **environment)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def compared(*arguments: str | Path) -> list[dict[str, Any]]:
    """Returns the objects that `compare --json` writes."""
    _, stdout, _ = compare(*arguments, "--json")
    return [json.loads(line) for line in stdout.splitlines()]


@pytest.mark.costly("the SDK's client and server start three times, through the recorder")
def test_what_breaks_between_two_versions_of_a_server_is_told(library: Library) -> None:
    code, stdout, stderr = compare(library.old, library.new)
    assert (code, stderr) == (1, ""), stderr
    for expected in (
        "arguments/newly-required",
        "tool/removed",
        "tool lend",
        "tool search",
        "outcome/now-fails",
        "notes",
    ):
        assert expected in stdout, expected
    assert "breaking" in stdout.splitlines()[0]


def test_the_same_capture_has_no_changes(library: Library) -> None:
    for path in (library.old, DEMO, CORPUS / "http.mcpcap"):
        code, stdout, stderr = compare(path, path)
        assert (code, stderr) == (0, ""), path
        assert "othing changed" in stdout.splitlines()[0]


def test_a_call_that_worked_and_fails_now_fails_without_options(tmp_path: Path) -> None:
    works, fails = (CaptureWriter(tmp_path / f"{name}.mcpcap", "files") for name in ("works", "fails"))
    for writer in (works, fails):
        writer.handshake(name="files")
        writer.call(20, 1, "read", path="a")
    works.answer(21, 1, content=[])
    fails.refuse(21, 1, -32603, "no")
    code, stdout, stderr = compare(works.close(), fails.close())
    assert (code, stderr) == (1, "")
    assert "outcome/now-fails" in stdout


def test_words_of_fail_on_choose_what_fails(library: Library) -> None:
    for words, versions, code in (
        ("never", ("1", "2"), 0),
        ("breaking", ("1", "2"), 1),
        ("outcome", ("1", "2"), 1),
        ("value", ("1", "2"), 1),
        ("breaking", ("1", "1-again"), 0),
        ("may-break,outcome", ("1", "1-again"), 0),
        ("value", ("1", "1-again"), 1),
        ("breaking", ("2", "2"), 0),
    ):
        paths = [library.captures[version] for version in versions]
        assert compare("--fail-on", words, *paths)[::2] == (code, ""), words


def test_the_example_of_the_page_is_what_the_command_prints(library: Library, tmp_path: Path) -> None:
    page = (ROOT / "docs/commands/compare.md").read_text("utf-8")
    (block,) = re.findall(
        r"^```text\n\$ mcpproxy compare old\.mcpcap new\.mcpcap.*?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    shutil.copy(library.old, tmp_path / "old.mcpcap")
    shutil.copy(library.new, tmp_path / "new.mcpcap")
    done = mcpproxy("compare", "old.mcpcap", "new.mcpcap", stdin=b"", cwd=tmp_path, COLUMNS="100")
    printed = {numberless(line) for line in [*done.stdout.decode().splitlines(), f"exit code {done.returncode}"]}
    assert [line for line in block.splitlines() if line != "…" and numberless(line) not in printed] == []


def numberless(line: str) -> str:
    """A line without numbers and times, which differ from run to run."""
    return " ".join(re.sub(r"[0-9][0-9,.:-]*", "N", line).split())


# ---- sides


def test_a_server_alone_compares_its_newest_capture_with_the_one_before(library: Library) -> None:
    code, stdout, stderr = compare("library", MCPPROXY_CAPTURES=str(library.root))
    assert (
        stderr
        == f"mcpproxy: comparing {library.new}, the newest capture of library, with {library.again}, the one before\n"
    )
    assert (code, stdout) == compare(library.again, library.new)[:2]


def test_a_name_means_the_newest_capture_of_the_server(library: Library, tmp_path: Path) -> None:
    code, _, stderr = compare("library", library.new, MCPPROXY_CAPTURES=str(library.root))
    assert code == 0
    assert stderr == f"mcpproxy: reading {library.new}, the newest of 3 captures of library\n"


def test_a_server_with_one_capture_is_told_what_to_do(library: Library, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    only = shutil.copy(library.old, tmp_path / "library")
    code, stdout, stderr = compare("library", MCPPROXY_CAPTURES=str(tmp_path), HOME=str(tmp_path))
    assert (code, stdout) == (2, "")
    assert stderr.startswith(f"mcpproxy: {only} is the only capture of library, so there is nothing to compare it with")


def test_a_folder_is_one_side_with_its_oldest_capture_first(library: Library, tmp_path: Path) -> None:
    for version in ("1", "2"):
        shutil.copy2(library.captures[version], tmp_path)
    code, stdout, stderr = compare(tmp_path, library.new)
    assert code == 0, stdout
    assert stderr == f"mcpproxy: reading 2 captures in {tmp_path}\n"
    assert compare(library.old, tmp_path)[0] == 1


def test_stdin_is_a_side_that_is_called_stdin(library: Library) -> None:
    done = mcpproxy("compare", "-", library.new, stdin=library.old.read_bytes())
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"stdin" in done.stdout
    assert b"stdin.mcpcap" not in done.stdout


def test_operands_that_are_not_two_sides_are_one_line_that_says_what_to_type(library: Library, tmp_path: Path) -> None:
    saved = tmp_path / "expected.json"
    assert compare("--save", saved, library.old)[0] == 0
    (tmp_path / "empty").mkdir()
    for operands, reason in (
        ((), "compare needs an old and a new side, not 0 operands; type mcpproxy compare OLD NEW"),
        ((library.old, library.again, library.new), "not 3 operands; put several captures of a side into a folder"),
        ((library.old,), "is a capture, which is only one side; type mcpproxy compare OLD NEW"),
        ((library.root,), "is a folder, which is only one side; type mcpproxy compare OLD NEW"),
        (("-",), "- is only one side; type mcpproxy compare OLD NEW"),
        ((saved,), "is only one side; type mcpproxy compare OLD NEW"),
        (("-", "-"), "stdin can only be one of the sides"),
        ((library.old, saved), "was written by --save, so it can only be the old side"),
        ((saved, saved), "was written by --save, so it can only be the old side"),
        (("", library.old), "the name of a capture is empty"),
        (("nowhere", library.old), "there is no capture, folder or server called nowhere"),
        ((library.old, "\x1b[31mred\u202e"), "there is no capture, folder or server called"),
        ((library.old, tmp_path / "empty"), "no captures in"),
        ((library.old, tmp_path / "none.mcpcap"), "none.mcpcap"),
        ((ROOT / "README.md", library.old), "README.md"),
        (("x" * 200, library.old), "there is no capture"),
        (("x" * 300, library.old), "…: File name too long"),
        (("x" * 5_000, library.old), "…: File name too long"),
    ):
        code, stdout, stderr = compare(*operands, HOME=str(tmp_path))
        assert (code, stdout) == (2, ""), operands
        assert reason in stderr, stderr
        assert (stderr.count("\n"), "\x1b" in stderr, "\u202e" in stderr) == (1, False, False), operands
        assert len(stderr) < 1_000


HOSTILE_NAME: Final = "\x1b[31mred\n::error::\u202e<script>|`.mcpcap"


def test_names_of_captures_cannot_act_on_a_terminal_or_a_page(library: Library, tmp_path: Path) -> None:
    hostile = tmp_path / HOSTILE_NAME
    shutil.copy(library.old, hostile)
    for name in ("text", "json", "markdown", "junit", "sarif", "github"):
        code, stdout, stderr = compare("--format", name, hostile, library.new)
        assert (code, stderr) == (1, ""), name
        assert not {"\x1b", "\u202e"} & {*stdout}, name
        assert not any(line.startswith("::error::") for line in stdout.splitlines()), name
        assert name not in ("markdown", "junit") or "<script>" not in stdout, name
    saved, written = ("--save", hostile, library.old), ("-o", hostile, library.old, library.new)
    for arguments in (saved, written):
        code, stdout, stderr = compare(*arguments)
        assert (code, stdout, stderr.count("\n"), "\x1b" in stderr) == (73, "", 1, False), arguments


# ---- latencies


def timed(path: Path, latency_ms: float, calls: int = 60) -> Path:
    """A capture of calls that take about that long."""
    writer = CaptureWriter(path, "files")
    writer.handshake(name="files")
    writer.ask(20, 1, "tools/list")
    writer.answer(21, 1, tools=[{"name": "read", "inputSchema": {"type": "object"}}])
    for number in range(calls):
        begun_ms = 1_000 + number * 1_000
        writer.call(begun_ms, 2 + number, "read", path="a")
        writer.answer(begun_ms + latency_ms * (1 + number % 7 / 50), 2 + number, content=[])
    return writer.close()


def test_a_slower_call_fails_if_it_is_certainly_slower_by_that_much(tmp_path: Path) -> None:
    fast, slow = timed(tmp_path / "fast.mcpcap", 10), timed(tmp_path / "slow.mcpcap", 20)
    few = timed(tmp_path / "few.mcpcap", 40, calls=2)
    for words, sides, code in (
        ("slower", (fast, slow), 1),
        ("slower=20%", (fast, slow), 1),
        ("slower=500%", (fast, slow), 0),
        ("slower", (slow, fast), 0),
        ("slower", (fast, fast), 0),
        ("outcome", (fast, slow), 0),
        ("outcome", (fast, few), 0),
    ):
        assert compare("--fail-on", words, *sides)[0] == code, (words, sides)
    assert compare("--fail-on", "slower", fast, few)[0] != 1


# ---- what is not compared


def listing(path: Path, *tools: str, cursor: str | None = None, call: str = "read") -> Path:
    """A capture of a session in which the client lists the tools, if there are any, and calls one."""
    writer = CaptureWriter(path, "files")
    writer.handshake(name="files")
    if tools:
        writer.ask(20, 1, "tools/list")
        definitions = [{"name": tool, "inputSchema": {"type": "object", "properties": {tool: {}}}} for tool in tools]
        writer.answer(21, 1, tools=definitions, **({} if cursor is None else {"nextCursor": cursor}))
    writer.call(22, 2, call, path="a")
    writer.answer(23, 2, content=[{"type": "text", "text": "ok"}])
    return writer.close()


def test_a_comparison_that_failed_is_2_and_says_why(tmp_path: Path) -> None:
    whole = listing(tmp_path / "whole.mcpcap", "read", "write")
    for other, reason in (
        (listing(tmp_path / "unlisted.mcpcap"), "tools"),
        (listing(tmp_path / "cut.mcpcap", "read", cursor="next"), "tools"),
        (listing(tmp_path / "other.mcpcap", "other", call="other"), "no call and no item of a list in common"),
    ):
        for sides in ((whole, other), (other, whole)):
            code, stdout, stderr = compare("--fail-on", "never", *sides)
            assert code == 2, sides
            assert stderr.startswith("mcpproxy: not compared: "), stderr
            assert reason in stderr, stderr
            assert "othing changed" not in stdout
    for unreadable in (CORPUS / "not-a-capture.mcpcap", CORPUS / "newer-format.mcpcap", CORPUS / "empty.mcpcap"):
        code, stdout, stderr = compare(whole, unreadable)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), unreadable


def test_a_damaged_capture_is_compared_as_far_as_it_is_whole_and_is_2() -> None:
    good = CORPUS / "good.mcpcap"
    for damaged in (CORPUS / "flipped-bit.mcpcap", CORPUS / "header-lost.mcpcap"):
        code, stdout, stderr = compare("--fail-on", "never", good, damaged)
        assert code == 2
        assert "othing changed" not in stdout
        assert "It is damaged at offset" in stdout
        assert "mcpproxy: not compared: all of the new side: a capture is damaged" in stderr
        _, _, stderr = compare("--json", good, damaged)
        assert f"mcpproxy: {damaged}: It is damaged at offset" in stderr


def test_a_capture_that_is_being_recorded_is_compared_up_to_its_end(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "growing.mcpcap")
    try:
        growing.add(*conversation(4))
        code, stdout, stderr = compare(growing.file.path, growing.file.path)
    finally:
        growing.end()
    assert code == 0
    assert "It is still being recorded" in stdout
    assert "It is still being recorded" in stderr


def test_what_neither_side_has_fails_only_if_a_given_word_needs_it(tmp_path: Path) -> None:
    unlisted = listing(tmp_path / "unlisted.mcpcap")
    assert compare(unlisted, unlisted)[::2] == (0, "")
    assert compare(unlisted, unlisted, "--fail-on", "outcome")[::2] == (0, "")
    code, stdout, stderr = compare(unlisted, unlisted, "--fail-on", "breaking")
    assert code == 2
    assert stderr.startswith("mcpproxy: not compared: tools: "), stderr
    assert "othing changed" not in stdout


def test_a_filter_is_applied_to_both_sides_and_checked_first(library: Library) -> None:
    assert compare("--filter", "name:count", library.old, library.new)[::2] == (0, "")
    for text, reason in (
        ("name:", "--filter: "),
        ("has:mark", "`compare` does not know `has:mark`"),
        ("level>=warning", "`compare` does not know `level`"),
    ):
        code, stdout, stderr = compare("--filter", text, library.old, library.new)
        assert (code, stdout) == (2, ""), text
        assert reason in stderr


def test_places_to_ignore_are_checked_before_anything_is_read(library: Library, tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text("# mcpproxy ignore 1\n\n# all is well\nstructuredContent\n")
    newer = tmp_path / "newer.txt"
    newer.write_text("# mcpproxy ignore 2\n/a\n")
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\x00" * 1_000)
    for words, reason in (
        (("--ignore", "structuredContent"), "--ignore structuredContent: expected a JSON Pointer"),
        (("--ignore", ""), "--ignore : expected "),
        (("--ignore", "\x1b[31m" + "x" * 1_000), "--ignore \\x1b[31mxxx"),
        (("--ignore-from", odd), f"cannot read {odd}: line 4: expected a JSON Pointer"),
        (("--ignore-from", newer), f"cannot read {newer}: line 1: a later version"),
        (("--ignore-from", binary), f"cannot read {binary}: line 1: expected "),
        (("--ignore-from", tmp_path), f"cannot read {tmp_path}: Is a directory"),
        (("--ignore-from", tmp_path / "none"), "none: No such file"),
    ):
        code, stdout, stderr = compare(*words, library.old, tmp_path / "not-read.mcpcap")
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), words
        assert reason in stderr, stderr
        assert len(stderr) < 400


def test_what_varies_by_itself_is_learnt_and_then_passed_over(library: Library, tmp_path: Path) -> None:
    varies = tmp_path / "varies.txt"
    code, stdout, stderr = compare("--learn", varies, library.old, library.again)
    assert (code, stderr) == (0, "")
    assert stdout.startswith(f"{varies}: 1 place, ")
    assert varies.read_text().splitlines() == ["# mcpproxy ignore 1", "tools/call count /structuredContent/books"]
    code, stdout, stderr = compare("--ignore-from", varies, "--fail-on", "value", library.old, library.again)
    assert (code, stderr) == (0, "")
    assert "tools/call count /structuredContent/books" in stdout
    for place, code in (("/structuredContent/*", 0), ("tools/call lend /structuredContent/*", 1)):
        assert compare("--ignore", place, "--fail-on", "value", library.old, library.again)[::2] == (code, ""), place
    code, stdout, stderr = compare("--learn", varies, library.old, library.again)
    assert (code, stdout, stderr) == (
        73,
        "",
        f"mcpproxy: {varies} exists; delete it first, or choose another name\n",
    )


def test_places_at_which_nothing_was_ignored_are_reported(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "places.txt"
    file.write_text("# mcpproxy ignore 1\n" + "".join(f"/absent/{number}\n" for number in range(30)))
    code, _, stderr = compare("--ignore", "/structuredContent/*", "--ignore", "/absent", library.old, library.again)
    assert (code, stderr) == (0, "mcpproxy: nothing was ignored by /absent\n")
    code, _, stderr = compare("--ignore-from", file, library.old, library.again)
    assert code == 0
    assert stderr.startswith("mcpproxy: nothing was ignored by /absent/0\n")
    assert re.search(r"nothing was ignored by \d+ more places\n$", stderr), stderr


def test_what_is_learnt_from_recordings_of_different_things_is_doubted(library: Library, tmp_path: Path) -> None:
    code, _, stderr = compare("--learn", tmp_path / "varies.txt", library.old, library.new)
    assert code == 0
    first, second = stderr.splitlines()
    prefix = "mcpproxy: --learn is for two recordings of the same thing: "
    assert first == f"{prefix}the servers or their versions differ (library 1.0.0, library 2.0.0)"
    assert second.startswith(f"{prefix}calls end differently")
    saved = tmp_path / "expected.json"
    assert compare("--save", saved, library.old)[0] == 0
    code, stdout, stderr = compare("--learn", tmp_path / "other.txt", saved, library.old)
    assert (code, stdout) == (2, "")
    assert stderr == f"mcpproxy: {saved} was written by --save; --learn needs two captures of the same thing\n"
    assert not (tmp_path / "other.txt").exists()


def test_nothing_is_learnt_from_recordings_that_have_nothing_in_common(tmp_path: Path) -> None:
    read, other = listing(tmp_path / "read.mcpcap", "read"), listing(tmp_path / "other.mcpcap", "other", call="other")
    code, stdout, stderr = compare("--learn", tmp_path / "varies.txt", read, other)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("mcpproxy: not compared: ")
    assert not (tmp_path / "varies.txt").exists()


# ---- expectations


def test_an_expectation_is_the_old_side_later(library: Library, tmp_path: Path) -> None:
    saved = tmp_path / "expected.json"
    code, stdout, stderr = compare("--save", saved, library.old)
    assert (code, stderr) == (0, "")
    assert stdout.startswith(f"{saved}: 1 capture, ")
    assert compare(saved, library.old)[::2] == (0, "")
    assert compare(saved, library.new)[::2] == (1, "")
    again = tmp_path / "again.json"
    assert compare("--save", again, library.old)[0] == 0
    assert again.read_bytes() == saved.read_bytes()
    assert str(tmp_path).encode() not in saved.read_bytes()


def test_an_expectation_replaces_no_file(library: Library, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("mine")
    for target in (kept, tmp_path, tmp_path / "none" / "x.json"):
        code, stdout, stderr = compare("--save", target, library.old)
        assert (code, stdout, stderr.count("\n")) == (73, "", 1), target
        assert str(target) in stderr
    assert kept.read_text() == "mine"
    assert compare("--save", tmp_path / "x.json")[0] == 2
    assert os.listdir(tmp_path) == ["kept.json"]


def test_a_full_disk_leaves_no_part_of_an_expectation(library: Library, tmp_path: Path) -> None:
    done = python(IN_SMALL_FILES, "compare", "--save", tmp_path / "expected.json", library.old)
    assert (done.returncode, done.stdout) == (73, b"")
    assert done.stderr.startswith(b"mcpproxy: cannot write ")
    assert os.listdir(tmp_path) == []


def test_an_expectation_that_is_damaged_or_newer_is_2(library: Library, tmp_path: Path) -> None:
    saved = tmp_path / "expected.json"
    assert compare("--save", saved, library.old)[0] == 0
    content = saved.read_bytes()
    damaged = tmp_path / "damaged.json"
    for part in (content[:-20], content.replace(b"search", b"serach"), content[: len(content) // 2]):
        damaged.write_bytes(part)
        code, stdout, stderr = compare(damaged, library.new)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1)
        assert "damaged.json" in stderr


def test_a_filter_that_an_expectation_was_saved_with_is_that_of_both_sides(library: Library, tmp_path: Path) -> None:
    counts, everything = tmp_path / "counts.json", tmp_path / "everything.json"
    assert compare("--save", counts, "--filter", "name:count", library.old)[0] == 0
    assert compare("--save", everything, library.old)[0] == 0
    assert compare(counts, library.again, "--no-findings")[::2] == (0, "")
    assert compared(counts, library.new) == compared(counts, library.new, "--filter", "name:count")
    for saved, words, reason in (
        (counts, "name:lend", "counts.json was saved with --filter name:count, and both sides need the same filter"),
        (everything, "name:lend", "everything.json was saved without --filter, and both sides need the same filter"),
    ):
        code, stdout, stderr = compare(saved, library.new, "--filter", words)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1)
        assert reason in stderr, stderr


# ---- baselines


def test_accepted_changes_are_counted_and_others_reported(library: Library, tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.jsonl"
    code, stdout, stderr = compare("--baseline", accepted, "--update-baseline", library.old, library.new)
    assert code == 0
    assert "tool/removed" in stdout
    entries = [json.loads(line) for line in accepted.read_text().splitlines()]
    assert stderr == f"mcpproxy: {len(entries)} entries in the baseline {accepted}: {len(entries)} new, 0 gone\n"
    assert all(list(entry) == ["rule", "level", "method", "pointer", "message"] for entry in entries)
    code, stdout, stderr = compare("--baseline", accepted, library.old, library.new, "--fail-on", "may-break,value")
    assert (code, stderr) == (0, "")
    assert "tool/removed" not in stdout
    accepted.write_text("".join(json.dumps(entry) + "\n" for entry in entries if entry["rule"] != "tool/removed"))
    code, stdout, _ = compare("--baseline", accepted, library.old, library.new)
    assert code == 1
    assert "tool/removed" in stdout
    assert "arguments/newly-required" not in stdout


def test_a_baseline_accepts_no_other_value_and_no_larger_slowdown(tmp_path: Path) -> None:
    def answering(name: str, total: int) -> Path:
        writer = CaptureWriter(tmp_path / f"{name}.mcpcap", "files")
        writer.handshake(name="files")
        writer.call(20, 1, "read", path="a")
        writer.answer(21, 1, content=[], structuredContent={"total": total})
        return writer.close()

    old, accepted, other = (answering(f"total-{total}", total) for total in (3, 41, 7))
    fast, slow, slower = (timed(tmp_path / f"{ms}.mcpcap", ms) for ms in (10, 19, 90))
    little_slower = timed(tmp_path / "little.mcpcap", 14)
    for word, sides, same_or_better, worse in (
        ("value", (old, accepted), (accepted,), other),
        ("slower", (fast, slow), (slow, little_slower), slower),
    ):
        baseline = tmp_path / f"{word}.jsonl"
        assert compare("--baseline", baseline, "--update-baseline", *sides)[0] == 0
        for side in same_or_better:
            assert compare("--baseline", baseline, "--fail-on", word, sides[0], side)[::2] == (0, ""), side
        code, stdout, stderr = compare("--baseline", baseline, "--fail-on", word, "--json", sides[0], worse)
        assert code == 1
        assert stderr == (
            f"mcpproxy: 1 entry of the baseline {baseline} no longer occurs; --update-baseline removes what does not\n"
        )
        _, stdout, _ = compare("--baseline", baseline, "--json", *sides)
        rows = [json.loads(line) for line in stdout.splitlines()]
        assert [row["rule"] for row in rows if row["type"] == "accepted"] == [
            {"value": "value/changed", "slower": "latency/slower"}[word]
        ]


def test_the_changes_of_a_json_output_are_a_baseline(library: Library, tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.jsonl"
    changes = [row for row in compared(library.old, library.new) if row["type"] == "change"]
    accepted.write_text("".join(json.dumps(row) + "\n" for row in changes))
    code, _, stderr = compare("--baseline", accepted, library.old, library.new, "--fail-on", "may-break,value")
    assert (code, stderr) == (0, "")
    _, _, stderr = compare("--baseline", accepted, "--update-baseline", library.old, library.new)
    assert stderr.endswith(": 0 new, 0 gone\n")


def test_a_baseline_is_left_alone_if_something_could_not_be_compared(tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.jsonl"
    whole, unlisted = listing(tmp_path / "whole.mcpcap", "read"), listing(tmp_path / "unlisted.mcpcap")
    code, _, stderr = compare("--baseline", accepted, "--update-baseline", whole, unlisted)
    assert code == 2
    assert "the baseline " in stderr
    assert not accepted.exists()
    code, stdout, stderr = compare("--baseline", accepted, whole, unlisted)
    assert (code, stdout) == (2, "")
    assert stderr == f"mcpproxy: cannot read the baseline {accepted}: No such file or directory\n"


# ---- outputs


def test_the_result_goes_to_a_file(library: Library, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    sides = library.old, library.new
    code, stdout, stderr = compare("-o", target, *sides)
    assert (code, stderr) == (1, "")
    assert stdout.startswith(f"{target}: ")
    assert target.read_text() == compare(*sides, COLUMNS="")[1]
    code, stdout, stderr = compare("-o", target, *sides)
    assert (code, stdout, stderr) == (73, "", f"mcpproxy: {target} exists; --force replaces it\n")
    assert compare("-o", target, "--force", "--json", *sides)[0] == 1
    assert json.loads(target.read_text().splitlines()[0])
    code, _, stderr = compare("-o", library.old, "--force", *sides)
    assert code == 73
    assert "it is the capture that is read" in stderr


def test_a_page_always_goes_to_a_file(library: Library, tmp_path: Path) -> None:
    def compare_to_page(*arguments: str | Path) -> tuple[int, str, str]:
        done = mcpproxy("compare", "--format", "html", *arguments, cwd=tmp_path)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    code, stdout, stderr = compare_to_page(library.old, library.new)
    assert (code, stderr) == (1, "")
    assert re.fullmatch(r"comparison\.html: failed: 3 breaking, .*, [\d.]+ kB; open it in a browser\n", stdout)
    assert (tmp_path / "comparison.html").read_text().startswith("<!doctype html>")
    exists = (73, "", "mcpproxy: comparison.html exists; --force replaces it\n")
    assert compare_to_page(library.old, library.new) == exists
    assert compare_to_page("--force", library.old, library.new)[0] == 1
    code, stdout, stderr = compare_to_page("--each", library.root)
    assert (code, stdout, stderr) == (2, "", "mcpproxy: --each prints text or json; see mcpproxy compare --help\n")


def test_every_format_writes_something_and_has_the_same_exit_code(library: Library) -> None:
    for name in ("text", "json", "markdown", "junit", "sarif", "github"):
        code, stdout, stderr = compare("--format", name, library.old, library.new)
        assert (code, stderr) == (1, ""), name
        assert "lend" in stdout, name


def test_a_closed_pipe_ends_it_silently(library: Library) -> None:
    line = f'{sys.executable} -m mcpproxy compare "$0" "$1" | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line, library.old, library.new], capture_output=True, timeout=DEADLINE_S, cwd=ROOT
    )
    assert (done.stdout.split()[0] in (b"0", b"1"), done.stderr) == (True, b"")


def test_ctrl_c_while_it_reads_is_130(library: Library, tmp_path: Path) -> None:
    reads, writes = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "compare", "-", library.new],
        stdin=reads,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        os.close(reads)
        try:
            wait_until(lambda: list(tmp_path.rglob("stdin.mcpcap")), "it reads stdin")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            os.close(writes)
    assert (process.returncode, stderr, list(tmp_path.iterdir())) == (130, b"", [])


# ---- drift over time, and pages


def test_each_capture_of_a_server_is_compared_with_the_one_before(library: Library, tmp_path: Path) -> None:
    code, stdout, stderr = compare("--each", "library", MCPPROXY_CAPTURES=str(library.root))
    assert (code, stderr) == (0, f"mcpproxy: reading 3 captures of library in {library.root}/library\n")
    assert "breaking" in stdout.splitlines()[0]
    assert "version 1.0.0 → 2.0.0" in stdout
    for name in ("lend", "renew", "rate", "search"):
        assert re.search(rf"^ {{21}}{name}$|^\S+ \S+  {name}  version ", stdout, re.MULTILINE), name
    assert re.search(r"^  before     2 sessions \(.*\), frame [0-9]+ of", stdout, re.MULTILINE)
    assert compare("--each", library.root, "--json")[1].count("\n") == 5
    for words, expected in (("breaking", 1), ("may-break", 1), ("never", 0)):
        assert compare("--each", library.root, "--fail-on", words)[0] == expected, words
    target = tmp_path / "drift.txt"
    code, written, _ = compare("--each", library.root, "-o", target)
    assert (code, target.read_text().splitlines()[0]) == (0, stdout.splitlines()[0])
    assert written.startswith(f"{target}: ")


def test_a_history_with_an_unreadable_capture_is_2(library: Library, tmp_path: Path) -> None:
    for path in (library.old, CORPUS / "newer-format.mcpcap"):
        shutil.copy(path, tmp_path)
    code, stdout, stderr = compare("--each", tmp_path)
    assert code == 2
    assert "incomplete" in stdout.splitlines()[0].lower()
    assert "newer-format.mcpcap" in stderr


def test_a_history_with_a_list_that_nobody_answered_is_2(library: Library, tmp_path: Path) -> None:
    shutil.copy(library.old, tmp_path)
    writer = CaptureWriter(tmp_path / "unanswered.mcpcap", "library", 7)
    writer.handshake()
    writer.ask(20, 1, "tools/list")
    writer.close()
    for words in ((), ("--fail-on", "breaking"), ("--fail-on", "never")):
        code, stdout, stderr = compare("--each", tmp_path, *words)
        assert code == 2
        assert stdout.startswith("Incomplete, because 1 capture may lack definitions: no changes in the rest\n")
        assert "unanswered.mcpcap may lack definitions: a request for the tools was not answered\n" in stderr


def test_a_history_without_lists_fails_only_if_a_given_word_needs_it(tmp_path: Path) -> None:
    listing(tmp_path / "unlisted.mcpcap")
    assert compare("--each", tmp_path)[0] == 0
    code, _, stderr = compare("--each", tmp_path, "--fail-on", "breaking")
    assert code == 2
    assert "mcpproxy: not compared: nothing to compare: no tools were listed" in stderr


def test_what_has_no_history_is_one_line(library: Library) -> None:
    for words, reason in (
        ((library.old,), "--each needs a server or a folder with captures"),
        (("-",), "--each needs a server or a folder with captures"),
        (("nowhere",), "there is no capture, folder or server called nowhere"),
        ((library.root, "--format", "sarif"), "--each prints text or json"),
    ):
        code, stdout, stderr = compare("--each", *words)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), words
        assert reason in stderr


def test_kinds_are_explained_and_listed() -> None:
    code, stdout, stderr = compare("--explain", "tool/removed")
    assert (code, stderr) == (0, "")
    assert stdout.startswith("tool/removed")
    code, listed, stderr = compare("--explain")
    assert (code, stderr) == (0, "")
    assert "arguments/newly-required" in listed
    code, stdout, stderr = compare("--explain", "tool/unlisted")
    assert (code, stdout, stderr) == (
        2,
        "",
        "mcpproxy: tool/unlisted is a rule of check: mcpproxy rule tool/unlisted\n",
    )
    code, stdout, stderr = compare("--explain", "newly-required")
    assert (code, stdout) == (2, "")
    assert "there is no kind of change newly-required; perhaps arguments/newly-required" in stderr
    code, stdout, stderr = compare("--explain", "tool/remove")
    assert (code, stdout) == (2, "")
    assert "tool/removed" in stderr
