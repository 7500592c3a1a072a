"""The file of `mcpproxy report`: its policy, its data, its limits. How it looks is tested by test_page_integration."""

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.store.open import use_sources
from analysis.store.report_rows import report_rows
from mcpproxy.html_report import limits
from mcpproxy.html_report.page import COMPARISON, REPORT, SOURCE_FOLDER
from mcpproxy.html_report.report import HtmlReport
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.conversations import busy, hostile
from tests.mcpproxy.html_report.parts import Parts

CORPUS = ROOT / "tests/corpus/captures"


def reported(tmp_path: Path, *captures: Path) -> Parts:
    target = tmp_path / "report.html"
    done = mcpproxy("report", "--force", "-o", target, *captures)
    assert target.exists(), done.stderr
    return Parts(target.read_text("utf-8"))


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_policy_allows_our_script_and_our_style_and_nothing_else(tmp_path: Path) -> None:
    parts = reported(tmp_path, *hostile(tmp_path / "captures"))
    (script,), (style,) = parts.scripts, parts.styles
    directives = dict(one.split(" ", 1) for one in parts.policy.split("; "))
    assert directives == {
        "default-src": "'none'",
        "script-src": hashed(script),
        "style-src": hashed(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    names = {name for name, _ in parts.attributes}
    assert not {name for name in names if name.startswith("on")} | ({"style", "src", "srcset", "action"} & names)
    assert all(value.startswith("#") for name, value in parts.attributes if name == "href" and value)


def test_scripts_are_those_of_the_folder_and_never_make_markup() -> None:
    names = {*REPORT.scripts, *COMPARISON.scripts}
    assert {path.name for path in SOURCE_FOLDER.glob("*.js")} == names
    text = "".join((SOURCE_FOLDER / name).read_text("utf-8") for name in names)
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|srcdoc|\.cssText|setAttribute\(.style"
    others = r"\beval\b|new Function|fetch\(|XMLHttp|WebSocket|import\(|localStorage"
    assert re.findall(f"{markup}|{others}", text) == []
    assert "</script" not in text.lower()


def test_figures_are_those_of_the_other_commands(tmp_path: Path) -> None:
    capture = busy(tmp_path / "library.mcpcap", 1_000)
    parts = reported(tmp_path, capture)
    overview, traffic = parts.block("data-overview"), parts.block("data-traffic")
    found = [json.loads(line) for line in mcpproxy("check", "--json", "--notes", capture).stdout.splitlines()]
    found = [one for one in found if "rule" in one]
    assert sum(overview["levels"].values()) == len(found) > 0
    assert {group["rule"]: group["count"] for group in overview["findings"]} == {
        rule: sum(one["rule"] == rule for one in found) for rule in {one["rule"] for one in found}
    }
    stats = [json.loads(line) for line in mcpproxy("stats", "--json", "--findings", capture).stdout.splitlines()]
    figures = {one["name"]: one["value"] for one in overview["figures"]}
    assert figures["frames"] == f"{stats[0]['frames']:,}"
    assert figures["errors"] == f"{stats[0]['errors']:,}"
    assert figures["abandoned"] == f"{stats[0]['abandoned']:,}"
    sums = "select sum(errors)::bigint as errors, sum(decided)::bigint as decided from error_rates"
    ((errors, decided),) = (
        json.loads(line).values() for line in mcpproxy("query", "--json", sums, capture).stdout.splitlines()
    )
    (said,) = (one["more"] for one in overview["figures"] if one["name"] == "errors")
    assert said == f"{errors / decided:.1%} of calls answered or failed"
    assert 0 < decided < sum(row["calls"] for row in overview["latencies"])
    latencies = {one["what"]: one["calls"] for one in stats if one["figure"] == "latency"}
    assert {one["what"]: one["calls"] for one in overview["latencies"]} == latencies
    rows = traffic["rows"]
    frames = [seq for seq, kind in zip(rows["seq"], rows["kind"], strict=True) if kind != "remark"]
    assert len(frames) == stats[0]["frames"]
    assert len(parts.block("data-calls")["request"]) == sum(latencies.values())
    assert len({len(column) for column in rows.values()}) == 1


def test_errors_are_grouped_by_call_and_text_and_name_the_first_frame(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake()
    for number in (1, 2):
        talk.call(20 * number, number, "read")
    first = talk.fail(50, 1, "cannot open 1.txt")
    talk.fail(51, 2, "cannot open 2.txt")
    talk.call(100, 8, "read")
    refused = talk.refuse(101, 8, -32602, "no such path")
    talk.call(110, 9, "write")
    failed = talk.fail(111, 9, "cannot open 1.txt")
    orphan = talk.refuse(120, None, -32700, "not JSON")
    overview = reported(tmp_path, talk.close()).block("data-overview")
    assert [(row["times"], row["what"], row["kind"], row["text"], row["frame"]) for row in overview["errors"]] == [
        (2, "tools/call read", "tool error", "cannot open 1.txt", first),
        (1, "tools/call read", "-32602 Invalid params", "no such path", refused),
        (1, "tools/call write", "tool error", "cannot open 1.txt", failed),
        (1, "an error that matches no request", "-32700 Parse error", "not JSON", orphan),
    ]
    assert overview["more_errors"] == 0
    assert {one["name"]: one["value"] for one in overview["figures"]}["errors"] == "5"


def test_the_first_screen_tells_calls_of_tools_from_start_up(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake(900)
    talk.call(1000, 1, "order")
    talk.fail(1200, 1, "cannot order:\n  the shop is closed\n")
    overview = reported(tmp_path, talk.close()).block("data-overview")
    assert [row["what"] for row in overview["slowest"]] == ["tools/call order"]
    assert [row["text"] for row in overview["errors"]] == ["cannot order: the shop is closed"]


def test_what_a_list_leaves_out_is_counted_beside_its_figure(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake()
    kinds = limits.MAX_FIRST_ROWS + 3
    for number in range(kinds):
        talk.call(20, number + 1, f"tool{number}")
    overview = reported(tmp_path, talk.close()).block("data-overview")
    assert {one["name"]: one["value"] for one in overview["figures"]}["unanswered"] == str(kinds)
    assert (len(overview["unanswered"]), overview["more_unanswered"]) == (limits.MAX_FIRST_ROWS, 3)
    assert (overview["abandoned"], overview["more_abandoned"]) == ([], 0)


def test_calls_without_an_answer_are_told_by_kind_the_longest_first(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake()
    for number, took_ms in enumerate((400, 401, 402), 1):
        at_ms = 1_000 * number
        talk.call(at_ms, number, "slow")
        params = {"requestId": number, "reason": "timed out"}
        talk.say(at_ms + took_ms, "c2s", method="notifications/cancelled", params=params)
    talk.answer(3_990, 2, content=[])
    for number in (11, 12):
        talk.call(4_000, number, "deaf")
    for number in (11, 12):
        params = {"requestId": number, "reason": "timed out"}
        talk.say(4_300, "c2s", method="notifications/cancelled", params=params)
    talk.call(4_400, 5, "stuck")
    talk.call(5_000, 6, "lost")
    talk.call(5_001, 7, "lost")
    talk.answer(9_000, "none")
    overview = reported(tmp_path, talk.close()).block("data-overview")
    assert [(row["what"], row["times"], row["waited"], row["more"]) for row in overview["abandoned"]] == [
        ("tools/call slow", 3, "402 ms", "1 answered late; the longest: timed out, never answered"),
        ("tools/call deaf", 2, "300 ms", "none answered; the longest: timed out"),
    ]
    assert [(row["what"], row["times"]) for row in overview["unanswered"]] == [
        ("tools/call stuck", 1),
        ("tools/call lost", 2),
    ]


def test_payloads_are_exactly_what_crossed(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "odd.mcpcap", "odd")
    raws = [
        b'{"a": 1e400, "a": 2}',
        "\u2028\u202e</script><!--".encode(),
        b"\xff\x00\x1b",
        b'{"big": 12345678901234567890}',
    ]
    for number, raw in enumerate(raws):
        talk.raw(number, "s2c", raw)
    parts = reported(tmp_path, talk.close())
    rows = parts.block("data-traffic")["rows"]
    payloads = parts.payloads()
    kept = [payloads[number] for number in rows["payload"] if number >= 0]
    assert kept == [raw.decode("utf-8", "backslashreplace") for raw in raws]


def test_capture_without_frames_is_not_called_faultless(tmp_path: Path) -> None:
    parts = reported(tmp_path, CaptureWriter(tmp_path / "silent.mcpcap", "silent").close())
    assert parts.block("data-overview")["nothing"] == "it holds no frames"
    parts = reported(tmp_path, busy(tmp_path / "a.mcpcap", 50))
    assert parts.block("data-overview")["nothing"] == ""


def test_large_payloads_are_cut_between_characters_and_counted(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "large.mcpcap", "large")
    talk.handshake()
    talk.answer(20, 7, text="ü" * limits.MAX_BYTES_PER_PAYLOAD)
    parts = reported(tmp_path, talk.close())
    overview = parts.block("data-overview")
    assert overview["payloads"]["cut"] == limits.MAX_BYTES_PER_PAYLOAD
    (line,) = overview["left_out"]
    advice = "`mcpproxy show CAPTURE --frame N` prints all of it."
    assert line == f"1 payload is cut after 262.1 kB, leaving out {_left(parts)}; {advice}"
    longest = max(parts.payloads(), key=len)
    assert limits.MAX_BYTES_PER_PAYLOAD - 4 < len(longest.encode()) <= limits.MAX_BYTES_PER_PAYLOAD


def _left(parts: Parts) -> str:
    size = max(parts.block("data-traffic")["rows"]["size"]) - limits.MAX_BYTES_PER_PAYLOAD
    return f"{size / 1e6:.1f} MB" if size >= 999_950 else f"{size / 1000:.1f} kB"


def test_frames_beyond_the_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    large, small = busy(tmp_path / "a.mcpcap", 400), busy(tmp_path / "b.mcpcap", 50, "weather", seed=2)

    def build(sources: Any) -> HtmlReport:
        with report_rows(sources.readable, memory=1 << 30) as rows:
            return HtmlReport(rows, lambda *_: None, frames=200)

    parts = Parts("".join(use_sources([large, small], build).pieces()))
    rows = parts.block("data-traffic")["rows"]
    counts = [
        sum(kind != "remark" for kind, capture in zip(rows["kind"], rows["capture"], strict=True) if capture == number)
        for number in range(2)
    ]
    assert sum(counts) <= 200
    (line,) = parts.block("data-overview")["left_out"]
    assert re.fullmatch(r"The traffic table has the first 1\d\d frames of a\.mcpcap; 2\d\d are left out\.", line)
    assert max(parts.block("data-calls")["request"]) <= max(rows["seq"])


def test_the_traffic_of_a_closed_capture_has_what_follows_its_last_frame(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake()
    parts = reported(tmp_path, talk.close())
    assert "not closed" not in json.dumps(parts.block("data-traffic"))


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 20))), st.integers(0, 10_000))
def test_level_is_the_largest_cut_that_fits(things: list[tuple[int, int]], budget: int) -> None:
    sizes = sorted(dict(things).items())

    def taken(cut: int) -> int:
        return sum(min(size, cut) * count for size, count in sizes)

    cut = limits.largest_cut(sizes, budget)
    assert taken(cut) <= budget
    assert not sizes or taken(cut + 1) > budget or cut >= sizes[-1][0]


# ---- the command


def test_file_is_private_and_named_on_stdout(tmp_path: Path) -> None:
    capture, target = busy(tmp_path / "a.mcpcap", 50), tmp_path / "out.html"
    done = mcpproxy("report", capture, "-o", target)
    assert done.returncode == 0
    assert re.fullmatch(
        rf"{target}: 1 capture, \d+ frames, \d+ findings?, [\d.]+ kB; open it in a browser\n", done.stdout.decode()
    )
    assert target.stat().st_mode & 0o777 == 0o600


def test_existing_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    capture, target = busy(tmp_path / "a.mcpcap", 50), tmp_path / "report.html"
    target.write_text("mine")
    done = mcpproxy("report", capture, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (73, b"mcpproxy: report.html exists; --force replaces it\n")
    assert target.read_text() == "mine"
    for wrong, complaint in (
        ("nosuch", b"no capture, folder or server called nosuch"),
        (__file__, b"no capture records"),
    ):
        done = mcpproxy("report", wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert done.stderr.count(b"\n") == 1
    assert mcpproxy("report", capture, "--force", cwd=tmp_path).returncode == 0
    assert target.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("output", "code", "complaint"),
    [
        ("", 2, "the name of the file to write is empty"),
        (".", 73, "cannot write .: it is a folder; name a file in it"),
    ],
)
def test_name_that_is_no_file_is_refused(tmp_path: Path, output: str, code: int, complaint: str) -> None:
    done = mcpproxy("report", busy(tmp_path / "a.mcpcap", 50), "-o", output, cwd=tmp_path)
    assert (done.returncode, done.stderr.decode()) == (code, f"mcpproxy: {complaint}\n")


def test_folder_that_does_not_exist_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    capture = busy(tmp_path / "a.mcpcap", 50)
    done = mcpproxy("report", capture, "-o", tmp_path / "none/report.html")
    assert done.returncode == 73
    assert b"cannot write" in done.stderr
    assert b"No such file or directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcpcap"]


def test_damaged_capture_is_reported_as_far_as_it_goes(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = mcpproxy("report", CORPUS / "damaged.mcpcap", "-o", target)
    assert done.returncode == 2
    assert b"damage" in done.stderr
    overview = Parts(target.read_text("utf-8")).block("data-overview")
    assert "damage" in overview["captures"][0]["missing"]


def test_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    capture = busy(tmp_path / "a.mcpcap", 50)
    command = f"ulimit -f 40; exec {sys.executable} -m mcpproxy report {capture} -o {tmp_path / 'report.html'}"
    environment = {**os.environ, "HOME": str(tmp_path), "MCPPROXY_CACHE_SIZE": "0"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, env=environment, check=False)
    assert done.returncode == 73
    assert b"cannot write" in done.stderr
    assert b"File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcpcap"]


def test_unreadable_capture_is_named_and_the_others_are_reported(tmp_path: Path) -> None:
    capture, target = busy(tmp_path / "a.mcpcap", 50), tmp_path / "report.html"
    done = mcpproxy("report", capture, CORPUS / "not-a-capture.mcpcap", "-o", target)
    assert done.returncode == 2
    assert b"not-a-capture.mcpcap" in done.stderr
    assert target.exists()
    target.unlink()
    done = mcpproxy("report", CORPUS / "not-a-capture.mcpcap", "-o", target)
    assert done.returncode == 2
    assert done.stderr.endswith(b"mcpproxy: no capture could be read, so nothing was written\n")
    assert not target.exists()


def test_redacted_report_holds_no_secret_and_the_same_findings(tmp_path: Path) -> None:
    secret = "ghp_" + "0123456789abcdefghijABCDEFGHIJklmnop"
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.handshake()
    talk.call(20, 1, "push", token=secret)
    talk.fail(30, 1, f"the token {secret} has expired")
    capture, target = talk.close(), tmp_path / "report.html"
    plain = reported(tmp_path, capture)
    assert any(secret in text for text in plain.payloads())
    done = mcpproxy("report", "--redact", "--force", capture, "-o", target)
    assert done.returncode == 0, done.stderr
    redacted = Parts(target.read_text("utf-8"))
    everything = redacted.data()
    assert secret not in everything
    assert "the token" in everything
    assert redacted.block("data-overview")["captures"][0]["file"] == "a.mcpcap"
    rules = [
        [(group["rule"], group["count"]) for group in one.block("data-overview")["findings"]]
        for one in (plain, redacted)
    ]
    assert rules[0] == rules[1] != []
    assert [path.name for path in tmp_path.iterdir()] in (["a.mcpcap", "report.html"], ["report.html", "a.mcpcap"])
