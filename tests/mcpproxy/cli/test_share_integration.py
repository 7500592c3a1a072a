"""`mcpproxy share` as typed: the copy, its report, what is selected, and what is refused."""

import json
import re
import shutil
import stat
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.frame import Frame
from captures.reader import Capture, assembled_items
from captures.record import Record, members, seal
from tests.mcpproxy.cli.typed import complaints, mcpproxy, on_terminal, python
from tests.mcpproxy.sharing.written import written

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
CORPUS = Path(__file__).parents[2] / "corpus/captures"
MAIL = "marta.kowalska@acme-corp.io"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A call with a token and an address in it, a call without, and a line of the server that is not JSON."""
    path = tmp_path / "original.mcpcap"
    text = f"your token is {TOKEN}, {MAIL}, order ACME-4711"
    path.write_bytes(
        b"".join(
            written(
                [
                    (
                        "c2s",
                        {"id": 2, "method": "tools/call", "params": {"name": "a", "arguments": {"customer": "Ann"}}},
                    ),
                    ("s2c", {"id": 2, "result": {"content": [{"type": "text", "text": text}]}}),
                    ("s2c", b"listening, token " + TOKEN.encode()),
                    ("c2s", {"id": 3, "method": "resources/read", "params": {"uri": "file:///x"}}),
                    ("s2c", {"id": 3, "result": {"contents": []}}),
                ]
            )
        )
    )
    return path


def share(capture: Path, *options: str, output: str = "copy.mcpcap") -> tuple[Path, bytes, int]:
    """Share into a file next to the capture; returns the copy, what was printed, and the exit code."""
    copy = capture.parent / output
    done = mcpproxy("share", capture, "-o", copy, *options)
    return copy, done.stdout + complaints(done), done.returncode


def messages(copy: Path) -> list[str]:
    """Returns the bytes of the frames of a capture."""
    records = [json.loads(line) for line in copy.read_text("utf-8").splitlines()]
    return [record["raw"] for record in records if record["rec"] == "frame"]


def test_account_counts_the_records_out_of_order_that_the_copy_lacks(capture: Path) -> None:
    lines = capture.read_bytes().splitlines(keepends=True)
    forged = seal(1 << 31, 0, "stderr", members(text="x"))
    capture.write_bytes(b"".join([*lines[:3], forged, *lines[3:]]))
    copy, told, _ = share(capture)
    assert len(messages(copy)) == 2
    assert f"  left out because they are out of order: {len(lines) - 3} records" in told.decode().splitlines()
    (row,) = mcpproxy("share", capture, "-o", capture.parent / "again.mcpcap", "--json").stdout.splitlines()
    assert json.loads(row)["out_of_order"] == len(lines) - 3


def test_secrets_go_and_the_account_says_which_and_where(capture: Path) -> None:
    copy, printed, code = share(capture)
    assert code == 0
    written_ = copy.read_text("utf-8")
    assert TOKEN not in written_
    assert MAIL not in written_
    assert "your token is hmac:" in written_
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    text = printed.decode()
    assert "github" in text
    assert "/result/content/*/text" in text
    assert "1 frame not parsed: not JSON; replaced entirely" in text
    assert text.endswith("\n  no list of secrets is complete, so review the copy before you publish it\n")
    assert "stay;" not in text
    assert TOKEN not in text
    assert MAIL not in text
    assert [path.name for path in sorted(capture.parent.iterdir())] == ["copy.mcpcap", "original.mcpcap"]


def test_account_says_what_became_of_stderr_and_what_stays(tmp_path: Path) -> None:
    lines = written([("s2c", {"id": 2, "result": {"v": ["+49 30 901820\n+49 30 901821", "00:1a:2b:3c:4d:5e"]}})])[:-1]
    lines.append(seal(len(lines), 9_000_000_000, "stderr", members(raw="call +49 30 901822", size=18, delim="\n")))
    capture = tmp_path / "original.mcpcap"
    capture.write_bytes(b"".join(lines))
    for options, told, stays in (
        (
            (),
            "1 line of stderr replaced entirely",
            "2 telephone numbers and 1 MAC address stay; --personal replaces them",
        ),
        (
            ("--keep-unparsed",),
            "1 line of stderr searched as plain text",
            "3 telephone numbers and 1 MAC address stay; ",
        ),
        (("--personal",), "1 line of stderr replaced entirely", ""),
    ):
        account = share(capture, *options, output=f"{len(told)}{len(options)}{len(stays)}.mcpcap")[1].decode()
        assert f"\n  {told}\n" in account
        assert (f"\n  {stays}" in account) if stays else ("stay;" not in account)


def test_account_names_patterns_that_match_nothing(capture: Path) -> None:
    patterns = ("customer", "custmer", "/params/arguments/*", "/params/nothing", "re:ACME-[0-9]+", "re:\x1bAC", "NAMES")
    options = [word for pattern in patterns for word in ("--redact", pattern)]
    _, printed, code = share(capture, *options)
    assert code == 0
    told = [line for line in printed.decode().splitlines() if "nothing matches" in line]
    assert [line.split()[-1] for line in told[:2]] == ["/params/nothing", "custmer"]
    assert len(told) == 4
    assert b"\x1b" not in printed
    row = json.loads(share(capture, *options, "--json", output="again.mcpcap")[1])
    assert row["unmatched"] == ["/params/nothing", "custmer", "NAMES", "re:\x1bAC"]


def test_every_command_reads_the_copy_and_verify_says_redacted(capture: Path) -> None:
    copy, _, _ = share(capture)
    assert b"complete, redacted, 10 records" in mcpproxy("verify", copy).stdout
    assert json.loads(mcpproxy("verify", "--json", copy).stdout)["redacted"] is True
    assert b"redacted by" in mcpproxy("info", copy).stdout
    for command in ("show", "check", "stats", "ls", "scan"):
        assert mcpproxy(command, copy).returncode in (0, 1), command
    assert mcpproxy("check", copy).stdout.count(b"framing/stdout-not-json") == mcpproxy("check", capture).stdout.count(
        b"framing/stdout-not-json"
    )


def test_an_account_without_replacements_promises_nothing(tmp_path: Path) -> None:
    clean = tmp_path / "clean.mcpcap"
    clean.write_bytes(b"".join(written([])))
    _, first, _ = share(clean)
    assert (
        b"no likely secrets found; no scan finds every secret"
        in share(tmp_path / "copy.mcpcap", output="again.mcpcap")[1]
    )
    assert b"replacement" in first


def test_json_has_the_whole_account(capture: Path) -> None:
    _, printed, _ = share(capture, "--json")
    account = json.loads(printed)
    assert account["records"] == 10
    assert {row["what"] for row in account["replaced"]} >= {"email", "unparsed"}
    assert account["not_parsed"] == {"not JSON": 1}
    assert account["findings"]["all"] == account["findings"]["unchanged"] > 0


def test_bytes_are_those_of_frames_whatever_the_server_wrote_to_stderr(tmp_path: Path) -> None:
    demo = tmp_path / "demo.mcpcap"
    demo.write_bytes((Path(__file__).parents[2] / "corpus/captures/demo.mcpcap").read_bytes())
    entries = list(assembled_items(Capture(demo)))
    assert any(isinstance(entry, Record) and entry.rec == "stderr" for entry in entries)
    size = sum(len(entry.raw) for entry in entries if isinstance(entry, Frame))
    assert json.loads(share(demo, "--json")[1])["bytes"]["all"] == size


def test_what_exists_is_not_overwritten_and_nothing_half_written_stays(capture: Path) -> None:
    copy, _, _ = share(capture)
    before = copy.read_bytes()
    _, printed, code = share(capture)
    assert code == 73
    assert b"exists" in printed
    assert copy.read_bytes() == before
    _, printed, code = share(capture, output="no/such/folder.mcpcap")
    assert code == 73
    assert share(capture, output="copy.txt")[2] == 73
    assert sorted(path.name for path in capture.parent.iterdir()) == ["copy.mcpcap", "original.mcpcap"]


def test_force_replaces_an_earlier_copy(capture: Path) -> None:
    copy, _, _ = share(capture)
    before = copy.read_bytes()
    _, printed, code = share(capture)
    assert (code, printed) == (73, f"mcpproxy: {copy} exists; --force replaces it\n".encode())
    _, printed, code = share(capture, "--force", "--no-bodies")
    assert code == 0, printed
    assert "your token" not in copy.read_text("utf-8")
    assert copy.read_bytes() != before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in sorted(capture.parent.iterdir())] == ["copy.mcpcap", "original.mcpcap"]
    copy.write_bytes(b"")
    assert share(capture, "--force")[2] == 0
    assert copy.stat().st_size


def test_force_replaces_only_what_share_has_written(capture: Path) -> None:
    folder = capture.parent
    other = folder / "other.mcpcap"
    other.write_bytes(capture.read_bytes())
    damaged = folder / "damaged.mcpcap"
    damaged.write_bytes(capture.read_bytes()[5:])
    torn = folder / "torn.mcpcap"
    torn.write_bytes(capture.read_bytes()[:50])
    foreign = folder / "foreign.mcpcap"
    foreign.write_bytes(b"no capture at all\n")
    share(capture)
    (folder / "link.mcpcap").symlink_to("copy.mcpcap")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, reason in (
        ("original", "it is the capture that is read"),
        ("other", "it is a recording"),
        ("damaged", "it is a recording"),
        ("torn", "it is not a redacted copy written by share"),
        ("foreign", "it is not a redacted copy written by share"),
        ("link", "it is not a regular file"),
    ):
        target = folder / f"{name}.mcpcap"
        _, printed, code = share(capture, "--force", output=target.name)
        tried = "write" if name == "original" else "replace"
        assert (code, printed.decode()) == (73, f"mcpproxy: cannot {tried} {target}: {reason}; choose another file\n")
    copy = folder / "copy.mcpcap"
    assert mcpproxy("share", "--force", copy, "-o", copy).returncode == 73
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_force_replaces_nothing_that_is_being_recorded(capture: Path) -> None:
    live = CaptureFile(capture.parent / "live.mcpcap")
    told = []
    for line in (None, *capture.read_bytes().splitlines(True)[:2]):
        live.append(line or b"")
        told.append(share(capture, "--force", output="live.mcpcap")[1:])
    assert (
        told
        == [(f"mcpproxy: cannot replace {live.path}: it is being recorded; choose another file\n".encode(), 73)] * 3
    )
    assert Path(live.path).read_bytes() == b"".join(capture.read_bytes().splitlines(True)[:2])
    live.close()


def test_force_replaces_all_segments_of_a_copy(tmp_path: Path) -> None:
    for name in ("two-segments.mcpcap", "two-segments.2.mcpcap", "ring.3.mcpcap", "ring.4.mcpcap", "demo.mcpcap"):
        shutil.copy(CORPUS / name, tmp_path)
    copy = tmp_path / "copy.mcpcap"
    for name, made in (
        ("two-segments", {"copy.mcpcap", "copy.2.mcpcap"}),
        ("ring.3", {"copy.mcpcap", "copy.4.mcpcap"}),
        ("demo", {"copy.mcpcap"}),
        ("two-segments", {"copy.mcpcap", "copy.2.mcpcap"}),
    ):
        _, printed, code = share(tmp_path / f"{name}.mcpcap", "--force")
        assert code == 0, printed
        assert {path.name for path in tmp_path.iterdir() if path.name.startswith("copy")} == made, name
        assert mcpproxy("verify", copy).returncode == mcpproxy("verify", tmp_path / f"{name}.mcpcap").returncode
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("options", "kept", "gone"),
    [
        (("--keep", "/result/content/*/text"), [TOKEN, MAIL], []),
        (("--keep", "text"), [TOKEN, MAIL], []),
        (("--keep", "re:.*acme-corp.*"), [MAIL], [TOKEN]),
        (("--redact", "/params/arguments/*"), [], ["Ann", TOKEN]),
        (("--redact", "Customer"), ["ACME-4711"], ["Ann"]),
        (("--redact", "re:ACME-[0-9]+"), ["Ann"], ["ACME-4711"]),
        (("--no-bodies",), ["tools/call", '"a"', "customer"], ["Ann", "your token", "ACME"]),
    ],
)
def test_patterns_keep_and_redact(capture: Path, options: tuple[str, ...], kept: list[str], gone: list[str]) -> None:
    copy, _, code = share(capture, *options)
    assert code == 0
    answers = "\n".join(raw for raw in messages(copy) if raw.startswith("{"))
    assert [text for text in kept if text not in answers] == []
    assert [text for text in gone if text in answers] == []


def test_unparsed_lines_are_searched_as_text_on_request(capture: Path) -> None:
    copy, _, _ = share(capture, "--keep-unparsed")
    (line,) = (raw for raw in messages(copy) if not raw.startswith("{"))
    assert line.startswith("listening, token hmac:")


def test_a_filter_keeps_whole_exchanges_and_the_handshake(capture: Path) -> None:
    copy, printed, code = share(capture, "--only", "method:resources/read")
    assert code == 0
    kept = messages(copy)
    assert len(kept) == 5
    assert sum('"id": 3' in raw for raw in kept) == 2
    assert b"3 records left out" in printed
    verified = mcpproxy("verify", copy)
    assert verified.returncode == 3
    assert b"records 4 to 6 were left out of this redacted copy" in verified.stdout


def test_the_end_of_a_capture_can_be_shared(capture: Path) -> None:
    copy, _, code = share(capture, "--last", "2s")
    assert code == 0
    kept = messages(copy)
    assert [('"id": 2' in raw, '"id": 3' in raw) for raw in kept[3:]] == [(False, True), (False, True)]


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A capture of a later version, with two records of a type that this version does not know."""
    path = tmp_path / "later.mcpcap"
    lines = written([("c2s", {"id": 2, "method": "ping"}), ("s2c", {"id": 2, "result": {}})])[:-1]
    for t_ns in (2_000_000_000, 9_000_000_000):
        note = members(note=f"the plan of {t_ns}", deep={"list": ["a salary", 4200, 1.5, True]}, raw="the payload")
        lines.append(seal(len(lines), t_ns, "memo", note))
    path.write_bytes(b"".join(lines))
    return path


def test_records_of_unknown_type_are_left_out_unless_the_time_selects_them(unknown: Path) -> None:
    copy, _, _ = share(unknown, output="all.mcpcap")
    assert copy.read_bytes().count(b"the plan") == 2
    copy, printed, _ = share(unknown, "--last", "2s", output="last.mcpcap")
    assert [text in copy.read_text() for text in ("plan of 2000000000", "plan of 9000000000")] == [False, True]
    assert b"left out because their type is unknown: 1 record\n" in printed
    copy, printed, _ = share(unknown, "--only", "method:ping", output="only.mcpcap")
    assert b"plan" not in copy.read_bytes()
    assert b"left out because their type is unknown: 2 records\n" in printed
    assert b"records 6 to 7 were left out of this redacted copy" in mcpproxy("verify", copy).stdout


def test_without_bodies_records_of_unknown_type_keep_only_names_and_types(unknown: Path) -> None:
    copy, _, _ = share(unknown, "--no-bodies", "--keep-unparsed", "--json")
    text = copy.read_text()
    assert [word for word in ("plan", "salary", "4200", "1.5", "payload") if word in text] == []
    (memo, _) = (json.loads(line) for line in text.splitlines() if '"memo"' in line)
    assert [type(value) for value in memo["deep"]["list"]] == [str, int, float, bool]
    _, printed, _ = share(unknown, "--no-bodies", "--json", output="again.mcpcap")
    (body,) = json.loads(printed)["replaced"]
    assert (body["what"], body["where"]) == ("body", [{"place": "unknown record", "times": 10}])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--only", "method:"), b"--only: "),
        (("--only", "has:finding"), b"`share` does not run the rules"),
        (("--keep", "re:("), b"re:("),
        (("--redact", ""), b"a pattern is empty"),
        (("--last", "soon"), b"is not an age"),
        (("--review",), b"needs a terminal"),
    ],
)
def test_wrong_usage_is_one_line_and_writes_nothing(capture: Path, options: tuple[str, ...], reason: bytes) -> None:
    copy, printed, code = share(capture, *options)
    assert code == 2
    assert reason in printed
    assert not copy.exists()


def test_a_damaged_capture_is_shared_with_gaps(capture: Path) -> None:
    lines = capture.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"Ann", b"Bob")
    capture.write_bytes(b"".join(lines))
    copy, printed, code = share(capture)
    assert code == 2
    assert b"is damaged: the copy has only what is intact" in printed
    assert b"record 4 was lost (damage)" in mcpproxy("verify", copy).stdout


def test_repeated_records_are_damage(capture: Path, tmp_path: Path) -> None:
    lines = capture.read_bytes().splitlines(keepends=True)
    doubled = tmp_path / "doubled.mcpcap"
    doubled.write_bytes(b"".join((*lines[:-1], lines[-2], lines[-1])))
    _, printed, code = share(doubled)
    assert code == 2
    assert b"is damaged" in printed


def test_review_asks_on_a_terminal_and_sanitises(capture: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.mcpcap"
    shown = on_terminal("share", str(capture), "-o", str(copy), "--review", typed=b"n\ny\na\n", columns=200)
    assert b"replace it? [y]es, [n]o, [a]ll, [q]uit" in shown
    assert copy.exists()
    refused = tmp_path / "refused.mcpcap"
    shown = on_terminal("share", str(capture), "-o", str(refused), "--review", typed=b"q\n")
    assert b"nothing was written" in shown
    assert not refused.exists()


def test_errors_name_the_files_that_the_user_named(capture: Path, tmp_path: Path) -> None:
    done = mcpproxy("share", "-", "-o", tmp_path / "x.mcpcap", stdin=b"no capture\n")
    assert complaints(done) == b"mcpproxy: cannot read stdin: it contains no capture records\n"
    done = mcpproxy("share", capture, "-o", "copy.txt", cwd=tmp_path)
    assert done.returncode == 73
    assert complaints(done).startswith(
        b"mcpproxy: cannot create the capture copy.txt: a capture's name must end in .mcpcap "
    )
    done = mcpproxy("share", capture, "-o", "")
    assert (done.returncode, complaints(done)) == (2, b"mcpproxy: the name of the file to write is empty\n")


IN_SMALL_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command that cannot write a file of more than 4 KiB."""


@pytest.mark.parametrize("arguments", [("share", "-o", "copy.mcpcap"), ("report", "--redact", "-o", "copy.html")])
def test_full_disk_is_said_of_what_could_not_be_written(
    capture: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    done = python(IN_SMALL_FILES, *arguments, capture, cwd=tmp_path, HOME=str(tmp_path), TMPDIR=str(place))
    assert done.returncode == 73
    told = done.stderr.decode()
    if arguments[0] == "share":
        assert re.fullmatch(r"mcpproxy: cannot (create the capture|write) copy\.mcpcap: [^/]+\n", told), told
    else:
        why = r"[^/]+; set TMPDIR to another folder"
        assert re.fullmatch(rf"mcpproxy: cannot make a redacted copy of {capture} in {place}: {why}\n", told), told
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["original.mcpcap"]
    assert list(place.iterdir()) == []


def test_full_disk_is_said_of_the_copy_of_stdin(capture: Path, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    longer = capture.read_bytes() + b"x" * 5000
    done = python(IN_SMALL_FILES, "share", "-o", "copy.mcpcap", "-", cwd=tmp_path, stdin=longer, TMPDIR=str(place))
    assert done.returncode == 73
    told = done.stderr.decode()
    assert told == f"mcpproxy: cannot copy stdin to {place}: File too large; set TMPDIR to another folder\n"
    assert list(place.iterdir()) == []
