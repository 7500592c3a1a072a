"""Logins in the text of a conversation: which lines they replace, and when they have their own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.login import GIVEN_UP_NS
from analysis.filter import parse
from analysis.reading import Reading
from captures.reader import Capture
from mcpproxy.report.conversation import Conversation
from mcpproxy.wording.cells import cells
from tests.harness import ROOT
from tests.mcpproxy.login_captures import METADATA, SERVER_METADATA, LoginCapture
from tests.mcpproxy.test_conversation import UNSAFE

PAGE = (ROOT / "docs/own-server.md").read_text("utf-8")
LEGS = ("/.well-known/", "/register", "/authorize", "/token")


@pytest.fixture
def capture(tmp_path: Path) -> LoginCapture:
    return LoginCapture(tmp_path / "x.mcpcap")


def shown(
    capture: LoginCapture, *, width: int = 160, may_grow: bool = False, rest_s: float = 0, **options: Any
) -> list[str]:
    """Returns the lines of a capture, without its heading; it ends `rest_s` seconds after its last exchange."""
    reading = Reading(capture.close(capture.now_ms + 10 + 1000 * rest_s))
    conversation = Conversation(reading.fold, width=width, **options)
    lines = [line for step in reading.to_end("open" if may_grow else None) for line in conversation.feed(step)]
    return [" ".join(line.split()) for line in lines[1:]]


def about_logins(lines: list[str]) -> list[str]:
    return [line for line in lines if " login " in line or any(leg in line for leg in LEGS)]


def test_a_login_that_succeeded_is_one_line_at_the_end_of_its_last_leg(capture: LoginCapture) -> None:
    capture.login()
    lines = shown(capture)
    (line,) = about_logins(lines)
    assert line.startswith("+0.130 · login 1: token issued challenge → resource metadata → ")
    assert lines[0].startswith("+0.020 2 @1 → ping #1")
    assert lines[1] == line
    assert lines[2].startswith("+0.140 15 @7 → ping #7")
    assert "failed" not in "".join(lines)


def test_its_legs_are_listed_on_request(capture: LoginCapture) -> None:
    capture.login()
    lines = shown(capture, unfold=True)
    at = next(number for number, line in enumerate(lines) if is_login(line))
    assert lines[at + 1 : at + 7] == [
        "+0.020 3 @1 · challenge 401 POST /mcp 10.0 ms",
        f"+0.040 5 @2 · resource metadata 200 GET {METADATA} 10.0 ms",
        f"+0.060 7 @3 · server metadata 200 GET {SERVER_METADATA} 10.0 ms",
        "+0.080 9 @4 · registration 201 POST /register 10.0 ms",
        "+0.100 11 @5 · authorization 302 GET /authorize 10.0 ms",
        "+0.120 13 @6 · token 200 POST /token 10.0 ms",
    ]


def test_the_name_of_a_leg_is_never_cut(capture: LoginCapture) -> None:
    capture.message(401, error="invalid_token", error_description="Authentication required")
    for path in (METADATA, "/.well-known/oauth-protected-resource"):
        capture.leg("resource-metadata", "GET", path, 404)
    capture.authorization()
    capture.token(400, error="unsupported_grant_type_of_a_long_name", error_description="the code has expired")
    names = ["challenge", "resource metadata", "resource metadata", "registration", "authorization", "token"]
    for width in (40, 48, 59, 60, 72, 80, 95, 96, 120):
        for times in ("rel", "abs"):
            lines = shown(capture, width=width, times=times)
            at = next(number for number, line in enumerate(lines) if is_login(line))
            legs = [line for line in lines[at + 1 :] if re.match(r"[+\d].* [·▲] (?!stderr)[a-z]+", line)][: len(names)]
            if width >= 44 or times == "rel":
                assert [name for name, line in zip(names, legs, strict=True) if name in line] == names, (width, times)
            first, second = (line for line in legs if "resource m" in line)
            if width >= 80:
                paths = [line.partition("GET ")[2].split()[0] for line in (first, second)]
                assert paths[0] != paths[1]
                assert METADATA.endswith(paths[0].lstrip("…"))


def test_the_columns_of_legs_are_aligned_at_80_columns(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token(400, error="invalid_grant", error_description="the code has expired")
    reading = Reading(capture.close())
    conversation = Conversation(reading.fold, width=80)
    lines = [line for step in reading.to_end() for line in conversation.feed(step)]
    legs = [line for line in lines if re.search(r"@\d+ [·▲]    ", line)]
    assert len(legs) == 6
    assert {len(line) for line in legs} == {80}
    assert len({line.index(re.split(r"  +", line.strip())[3]) for line in legs}) <= 2


def test_a_login_that_failed_lists_its_legs_and_marks_the_one_that_failed(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token(400, error="invalid_grant", error_description="the code has expired")
    lines = shown(capture)
    at = next(number for number, line in enumerate(lines) if " login " in line)
    assert lines[at] == "+0.130 ▲ login 1: failed at token: 400 invalid_grant"
    assert lines[at + 1].startswith("the code has expired challenge → resource metadata → ")
    assert [line.split()[3] for line in lines[at + 2 : at + 8]] == ["·"] * 5 + ["▲"]
    assert lines[at + 7] == "+0.120 13 @6 ▲ token 400 invalid_grant POST /token the code has expired 10.0 ms"


def test_a_login_that_the_client_left_says_what_it_did_not_request(capture: LoginCapture) -> None:
    capture.discovery()
    lines = about_logins(shown(capture, width=240, rest_s=60))
    assert lines[0].startswith(
        "+0.070 ▲ login 1: the client did not go on after server metadata no registration, no auth"
    )
    assert len(lines) == 1 + 2
    narrow = shown(capture, width=80, rest_s=60)
    assert "no registration, no authorization" in narrow[narrow.index(next(filter(is_login, narrow))) + 1]


def test_a_recording_that_ended_soon_after_the_last_leg_blames_nobody(capture: LoginCapture) -> None:
    capture.discovery()
    lines = shown(capture, rest_s=59)
    at = next(number for number, line in enumerate(lines) if is_login(line))
    assert lines[at] == "+0.070 ▲ login 1: the client did not go on after server metadata"
    reason = "until the recording ended, 59.0 s later: no registration, no authorization"
    assert lines[at + 1].startswith(reason)


def is_login(line: str) -> bool:
    return " login " in line


def test_a_failure_is_told_when_its_client_does_not_react(capture: LoginCapture) -> None:
    capture.discovery()
    capture.leg("registration", "POST", "/register", 403)
    failed_ms = capture.now_ms + 10
    capture.client = "198.51.100.1:1"
    capture.message()
    assert not [line for line in shown(capture)[:-1] if " @5 " in line and is_login(line)]
    capture.now_ms = failed_ms + GIVEN_UP_NS / 1_000_000
    capture.message()
    lines = shown(capture)
    at = next(number for number, line in enumerate(lines) if is_login(line))
    assert lines[at].startswith("+0.090 ▲ login 1: failed at registration: 403")
    assert any("→ ping #5" in line for line in lines[:at])
    assert len(list(filter(is_login, lines))) == 1


def test_a_login_that_goes_on_after_a_failure_has_another_line(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token(400, error="invalid_grant")
    capture.now_ms += 60_000
    capture.message(401)
    capture.authorization()
    capture.token()
    capture.message(token="hmac:3")
    first, second = filter(is_login, shown(capture))
    assert "failed at token" in first
    assert ": token issued" in second


def test_an_expired_refresh_token_is_no_failure(capture: LoginCapture) -> None:
    capture.message(401, token="hmac:1", error="invalid_token")
    capture.token(400, "refresh_token", error="invalid_grant")
    capture.discovery()
    capture.authorization()
    capture.token()
    capture.message(token="hmac:2")
    (line,) = about_logins(shown(capture))
    assert "login 1: token issued" in line


def test_a_token_that_is_refused_has_all_legs_below_it(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token()
    capture.message(401, token="hmac:3", error="invalid_token", error_description="wrong audience")
    lines = shown(capture)
    issued, refused = filter(is_login, lines)
    assert "token issued" in issued
    assert refused.startswith("+0.150 ▲ login 1: the server refused the new token: 401 invalid_token")
    assert len([line for line in lines if "@" in line and lines.index(line) > lines.index(refused)]) >= 7
    assert "+0.140 16 @7 ▲ challenge 401 invalid_token POST /mcp wrong audience 10.0 ms" in lines


def test_a_challenge_is_said_once_and_is_no_alarm(capture: LoginCapture) -> None:
    capture.message(401, token="hmac:1", error="invalid_token")
    capture.token(grant_type="refresh_token")
    capture.message(token="hmac:2")
    lines = shown(capture)
    assert lines[1] == "+0.030 @1 · POST /mcp → 401: invalid_token"  # a credential was refused
    assert not [line for line in lines if "▲" in line or "failed" in line]


def test_a_login_that_failed_says_its_challenge_itself(capture: LoginCapture) -> None:
    capture.discovery()
    capture.token(400, error="invalid_client")
    lines = shown(capture)
    assert len([line for line in lines if "401" in line]) == 1
    assert not [line for line in lines if "request failed" in line]
    live = shown(capture, live=True)
    assert "+0.030 @1 · POST /mcp → 401" in live


def test_a_refusal_that_belongs_to_no_login_keeps_its_line(capture: LoginCapture) -> None:
    capture.message(403)
    lines = shown(capture)
    assert "+0.030 @1 ▲ POST /mcp → 403" in lines
    assert any("1 request failed" in line for line in lines)


def test_a_login_that_the_end_of_the_capture_ends_comes_before_the_line_about_the_end(capture: LoginCapture) -> None:
    capture.discovery()
    for lines in (shown(capture), shown(capture, live=True)):
        assert lines[-1].endswith("■ server exited 0")
        assert len(list(filter(is_login, lines))) == 1


def test_a_renewal_every_hour_is_one_line_each(capture: LoginCapture) -> None:
    for hour in range(24):
        capture.now_ms += 3_600_000
        capture.token(grant_type="refresh_token")
        capture.message(token=f"hmac:{hour}")
    for lines in (shown(capture), shown(capture, live=True)):
        renewals = about_logins(lines)
        assert len(renewals) == 24
        assert all("token renewed" in line for line in renewals)


def test_metadata_that_nobody_needed_is_one_dim_line(capture: LoginCapture) -> None:
    capture.leg("resource-metadata", "GET", METADATA, 404)
    capture.leg("server-metadata", "GET", SERVER_METADATA, 404)
    capture.message()
    (line,) = about_logins(shown(capture))
    assert "· login 1: not needed: the server did not ask for a token" in line


def test_exchanges_that_are_no_legs_keep_their_lines(capture: LoginCapture) -> None:
    capture.leg(None, "GET", "/health", 200)
    capture.leg(None, "GET", "/authorize?response_type=code&client_id=a", 404)
    assert [line for line in shown(capture) if "GET" in line] == [
        "+0.020 @1 · GET /health",
        "+0.030 @1 · GET /health → 200",
        "+0.050 @2 ▲ GET /authorize?response_type=code&client_id=a → 404",
    ]


def test_a_leg_with_which_mcpproxy_finds_fault_keeps_its_line(capture: LoginCapture) -> None:
    capture.message(401)
    capture.flags = ["bypass/resource"]
    capture.leg("resource-metadata", "GET", METADATA)
    assert f"+0.050 @2 ▲ GET {METADATA} → 200 bypass/resource" in shown(capture)


def test_a_revocation(capture: LoginCapture) -> None:
    capture.leg("revocation", "POST", "/revoke", 200, client_id="hmac:1")
    assert shown(capture)[0] == "+0.030 · login 1: token revoked revocation 1 request 203.0.113.7 connector/1.0 10.0 ms"


def test_a_revocation_that_failed(capture: LoginCapture) -> None:
    capture.leg("revocation", "POST", "/revoke", 503, client_id="hmac:1")
    assert shown(capture)[0].startswith("+0.030 ▲ login 1: failed at revocation: 503 revocation 1 request, 10.0 ms")


def test_while_a_login_is_under_way_its_legs_are_shown_live(capture: LoginCapture) -> None:
    capture.discovery()
    capture.begin("GET", "/authorize?response_type=code&client_id=hmac:1")
    live = shown(capture, live=True, may_grow=True)
    assert f"+0.050 @2 · GET {METADATA} → 200" in live
    assert "+0.080 @4 · GET /authorize?response_type=code&client_id=hmac:1" in live
    still = shown(capture, may_grow=True)
    assert f"+0.050 @2 · GET {METADATA} → 200" not in still
    for lines in (live, still):
        assert any("· login 1: under way, after server metadata" in line for line in lines)
    assert "+0.080 @4 · GET /authorize?response_type=code&client_id=hmac:1" in still


def test_a_file_and_the_same_file_followed_say_the_same_of_logins(capture: LoginCapture) -> None:
    capture.login()
    capture.now_ms += 20_000
    capture.discovery()
    capture.token(400, error="invalid_client")
    path = capture.close()

    def lines(*, live: bool) -> Iterator[str]:
        reading = Reading()
        conversation = Conversation(reading.fold, live=live)
        for item in Capture(path):
            for shown_item in conversation.items_of(reading.feed(item)):
                yield from conversation.lines(shown_item)
            conversation.release_held()
        for step in reading.finish():
            for shown_item in conversation.items_of(step):
                yield from conversation.lines(shown_item)

    still, live = list(lines(live=False)), list(lines(live=True))
    assert [line for line in live if line in still] == still


def test_a_filter_selects_no_logins(capture: LoginCapture) -> None:
    capture.login()
    assert about_logins(shown(capture, only=parse("method:ping"))) == []


def test_many_legs_are_counted(capture: LoginCapture) -> None:
    capture.discovery()
    for number in range(200):
        capture.leg("registration", "POST", f"/register/{number}", 400, error=f"error-{number}")
    lines = shown(capture)
    assert len(lines) < 50
    assert any("· 171 more requests" in line for line in lines)


def test_the_example_of_the_guide_is_what_is_shown(capture: LoginCapture) -> None:
    refusal = {"error": "invalid_token", "error_description": "Authentication required"}
    for capture.client, ends in (("203.0.113.7:1", False), ("203.0.113.8:1", True)):
        capture.message(401, **refusal)
        capture.leg("resource-metadata", "GET", METADATA)
        capture.leg("server-metadata", "GET", SERVER_METADATA)
        if not ends:
            capture.authorization()
            capture.token(400, error="invalid_grant", error_description="incorrect code_verifier")
    _, _, example = PAGE.partition("## A login that failed")
    example = example.partition("```text\n")[2].partition("```")[0]
    lines = [" ".join(line.split()) for line in example.splitlines()[2:-1]]
    assert "▲ login 1: failed at token" in lines[0]
    shown_lines = iter(shown(capture, width=100, rest_s=60))
    for line in lines:
        words = plain(line)
        assert any(plain(other) == words for other in shown_lines), line


def plain(line: str) -> str:
    """A line without what differs from one recording to the next: times, durations and the words that they cut off."""
    return re.sub(r"…\S*|\+[\d.]+|[\d.]+ ms|\d+ @\d+", "", line)[:60].rstrip()


def test_hostile_texts_are_escaped_and_fit_the_width(tmp_path: Path) -> None:
    texts = ("\x1b[31m\x07\x00", "\u202egnp.exe\u2066\u200b", "<b>&amp;", "x" * 2048, "\n\r\t", "\u2028")
    for width in (40, 80, 200):
        for number, text in enumerate(texts):
            capture = LoginCapture(tmp_path / f"{width}-{number}.mcpcap")
            capture.program = text
            capture.message(401, error=text, error_description=text, scope=text)
            capture.leg("resource-metadata", "GET", f"/{text}", 404, as_server=text)
            capture.leg(
                "token", "POST", f"/{text}", 400, error=text, error_description=text, scope=text, client_id=text
            )
            reading = Reading(capture.close())
            conversation = Conversation(reading.fold, width=width, unfold=True)
            for line in (line for step in reading.to_end() for line in conversation.feed(step)):
                assert cells(line) <= width
                assert UNSAFE.search(line) is None
