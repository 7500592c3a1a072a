"""`mcpproxy rule ID --in CAPTURE` prints the page of a rule and, below it, the findings of the rule."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from captures.record import members
from mcpproxy.cli.evidence import MAX_SHOWN_FINDINGS, MAX_SHOWN_PROOFS
from mcpproxy.sanitise import sanitise
from tests.captures.samples import frame, header, lines
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal
from tests.mcpproxy.report.findings import FOREIGN, twisted

RULE = "id/type-changed"


def below(page_and_more: bytes) -> list[str]:
    """Returns the lines below the page."""
    page = mcpproxy("rule", RULE).stdout.decode()
    text = page_and_more.decode()
    assert text.startswith(page)
    return text[len(page) :].splitlines()


def rows(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_findings_stand_below_the_page_as_check_draws_them_with_what_proves_them(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", 2)
    done = mcpproxy("rule", RULE, "--in", path)
    assert (done.returncode, done.stderr) == (0, b"")
    checked = mcpproxy("check", "--rule", RULE, path).stdout.decode().splitlines()
    one, two = [at for at, line in enumerate(checked) if line.startswith("  error ")]
    # The source and the pointer to the page are omitted, because the page is printed above.
    assert checked[-3].endswith(f"mcpproxy rule {RULE}")
    asked = '      {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}'
    assert below(done.stdout) == [
        "",
        *checked[:two],
        "    frame 1",
        asked % 1,
        *checked[two:-3],
        "    frame 3",
        asked % 2,
    ]
    assert two - one == 4


def test_of_many_messages_that_prove_a_finding_the_first_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "died.mcpcap"
    asked = [("frame", frame("c2s", b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)) for number in range(9)]
    ended = ("process", members(event="ended", pid=1, status=1))
    path.write_bytes(b"".join(lines([("header", header()), *asked, ended])))
    (one,) = rows(mcpproxy("rule", "--json", "shutdown/server-died", "--in", path).stdout)[0]["findings"]
    assert len(one["related"]) > MAX_SHOWN_PROOFS
    shown = mcpproxy("rule", "shutdown/server-died", "--in", path).stdout.decode()
    assert shown.count("\n    frame ") == MAX_SHOWN_PROOFS


def test_only_the_first_few_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    text = below(mcpproxy("rule", RULE, "--in", twisted(tmp_path / "a.mcpcap", MAX_SHOWN_FINDINGS + 1204)).stdout)
    assert sum(line.startswith("  error ") for line in text) == MAX_SHOWN_FINDINGS
    assert text[-1] == "    and 1,204 more"


def test_notes_are_shown_as_well(tmp_path: Path) -> None:
    path = tmp_path / "float.mcpcap"
    request = b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}'
    path.write_bytes(b"".join(lines([("header", header()), ("frame", frame("c2s", request))])))
    assert "  note     id/float-integer " in mcpproxy("rule", "id/float-integer", "--in", path).stdout.decode()


def test_where_nothing_was_found_it_says_so(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", 3)
    done = mcpproxy("rule", "id/null", "--in", path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().endswith(f"\n\n{path}: nothing found in 6 frames of 1 session\n")


def test_each_of_several_rules_has_its_own(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap")
    text = mcpproxy("rule", "id/null", RULE, "--in", path).stdout.decode()
    first, second = text.split(f"\n\n{RULE}\n\n")
    assert first.endswith("nothing found in 2 frames of 1 session")
    assert f"\n{path}\n\n  error    {RULE} " in second
    assert f"  error    {RULE} " not in first


def test_of_several_captures_each_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    one, two = twisted(tmp_path / "folder/one.mcpcap"), twisted(tmp_path / "folder/two.mcpcap", 2)
    clean = twisted(tmp_path / "clean.mcpcap", 0)
    text = below(mcpproxy("rule", RULE, "--in", tmp_path / "folder", "--in", clean).stdout)
    assert sorted(line for line in text if line in (str(one), str(two))) == [str(one), str(two)]
    assert text[-2:] == ["", f"{clean}: nothing found in 0 frames of 1 session"]


def test_a_capture_comes_on_stdin_by_name_or_in_a_place_of_its_own(tmp_path: Path) -> None:
    path = twisted(tmp_path / "20261121T101502Z-4f2a.mcpcap")
    done = mcpproxy("rule", RULE, "--in", "-", stdin=path.read_bytes())
    assert below(done.stdout)[1] == "stdin"
    place = tmp_path / "captures/server"
    place.mkdir(parents=True)
    kept = shutil.copy(path, place)
    done = mcpproxy("rule", RULE, "--in", "server", MCPPROXY_CAPTURES=str(tmp_path / "captures"))
    assert below(done.stdout)[1] == str(kept)


def test_as_json_the_rule_has_its_findings(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", MAX_SHOWN_FINDINGS + 2)
    done = mcpproxy("rule", "--json", RULE, "id/null", "--in", path)
    one, none = rows(done.stdout)
    assert (one["id"], one["found"]) == (RULE, MAX_SHOWN_FINDINGS + 2)
    assert one["findings"] == rows(mcpproxy("check", "--json", "--rule", RULE, path).stdout)[:MAX_SHOWN_FINDINGS]
    assert (none["id"], none["found"], none["findings"]) == ("id/null", 0, [])
    assert "found" not in rows(mcpproxy("rule", "--json", RULE).stdout)[0]


def test_what_cannot_be_read_is_one_line_and_the_page_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "text.mcpcap").write_text("hello\n")
    done = mcpproxy("rule", RULE, "--in", tmp_path / "text.mcpcap")
    assert done.returncode == 2
    assert done.stderr.decode() == f"mcpproxy: cannot read {tmp_path}/text.mcpcap: it contains no capture records\n"
    assert below(done.stdout) == []
    done = mcpproxy("rule", RULE, "--in", "-", stdin=b"hello\n")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"cannot read stdin: " in done.stderr
    done = mcpproxy("rule", RULE, "--in", "there-is-none", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


def test_a_damaged_capture_is_told_and_what_is_whole_is_shown(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", 2)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*whole[:3], b"rubbish\n", *whole[3:]]))
    done = mcpproxy("rule", RULE, "--in", path)
    assert done.returncode == 2
    assert b"`mcpproxy verify` lists the damage" in done.stderr
    assert sum(line.startswith("  error ") for line in below(done.stdout)) == 2


def test_a_rule_that_there_is_not_does_not_hide_the_others(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap")
    done = mcpproxy("rule", "id/nil", RULE, "--in", path)
    assert done.returncode == 2
    assert below(done.stdout)[1] == str(path)


@pytest.mark.parametrize("words", [[], ["id/*"], [RULE, "id/*"]], ids=" ".join)
def test_it_goes_with_ids_alone(tmp_path: Path, words: list[str]) -> None:
    done = mcpproxy("rule", *words, "--in", twisted(tmp_path / "a.mcpcap"))
    told = "mcpproxy: --in needs the id of a rule, as in `mcpproxy rule id/null --in CAPTURE`\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", told)


def test_hostile_text_acts_on_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b]0;owned\x07.mcpcap"
    told = FOREIGN.encode("utf-8", "replace")
    path.write_bytes(b"".join(lines([("header", header()), ("frame", frame("s2c", told))])))
    done = mcpproxy("rule", "framing/stdout-not-json", "id/null", "--in", path)
    text = done.stdout.decode()
    assert "  error    framing/stdout-not-json " in text
    assert "nothing found in 1 frame" in text
    assert all(sanitise(line, None) == line for line in text.splitlines())


def test_on_a_terminal_findings_are_coloured_and_fit(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap")
    shown = on_terminal("rule", RULE, "--in", path.name, columns=60, cwd=tmp_path)
    assert b"\x1b[1;31m  error" in shown
    assert b"\x1b[" not in mcpproxy("rule", RULE, "--in", path, "--color", "never").stdout
