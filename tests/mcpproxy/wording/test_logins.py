"""What is said about a login: the answer first, then what led to it."""

from pathlib import Path

import pytest

from analysis.conversation.login import MAX_LEGS, MAX_PAUSE_NS, Login
from analysis.reading import Reading
from mcpproxy.wording.logins import (
    chain_text,
    client_text,
    duration_text,
    leg_facts,
    leg_result,
    leg_text,
    login_text,
    outcome_text,
    summary_of,
)
from tests.mcpproxy.login_captures import METADATA, SERVER_METADATA, LoginCapture
from tests.mcpproxy.test_conversation import UNSAFE


@pytest.fixture
def capture(tmp_path: Path) -> LoginCapture:
    return LoginCapture(tmp_path / "x.mcpcap")


def logins(capture: LoginCapture, *, may_grow: bool = False, ends_soon: bool = False) -> list[Login]:
    reading = Reading(capture.close(capture.now_ms + 10 + (0 if ends_soon else MAX_PAUSE_NS // 1_000_000)))
    for _ in reading.to_end("open" if may_grow else None):
        pass
    return reading.fold.logins.all()


def only(capture: LoginCapture, *, may_grow: bool = False, ends_soon: bool = False) -> Login:
    (login,) = logins(capture, may_grow=may_grow, ends_soon=ends_soon)
    return login


def test_a_login_that_succeeded(capture: LoginCapture) -> None:
    capture.login()
    login = only(capture)
    assert outcome_text(login) == "token issued"
    assert chain_text(login) == (
        "challenge → resource metadata → server metadata → registration → authorization → token"
    )
    assert duration_text(login) == "6 requests, 110 ms"
    assert client_text(login) == "203.0.113.7 connector/1.0"
    assert login_text(login).startswith("login 1: token issued  challenge → ")
    assert login_text(login).endswith(" → token  6 requests, 110 ms  203.0.113.7 connector/1.0")


def test_a_renewal(capture: LoginCapture) -> None:
    capture.message(401, token="hmac:3", error="invalid_token")
    capture.token(grant_type="refresh_token")
    capture.message(token="hmac:4")
    assert outcome_text(only(capture)) == "token renewed"


def test_the_leg_that_failed_and_what_the_server_said(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token(400, error="invalid_grant", error_description="the code has expired")
    login = only(capture)
    assert outcome_text(login) == "failed at token: 400 invalid_grant: the code has expired"
    assert leg_text(login.last) == "token: POST /token → 400 invalid_grant: the code has expired"


def test_a_refusal_in_the_redirect(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization(error="access_denied", error_description="the user said no")
    assert outcome_text(only(capture)) == "failed at authorization: 302 access_denied: the user said no"


def test_a_registration_without_an_oauth_error(capture: LoginCapture) -> None:
    capture.discovery()
    capture.leg("registration", "POST", "/register", 404)
    assert outcome_text(only(capture)) == "failed at registration: 404"


def test_an_endpoint_that_does_not_answer(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token(None)
    assert outcome_text(only(capture)) == "failed at token: no answer: Connection reset by peer"


def test_a_token_that_the_server_refuses(capture: LoginCapture) -> None:
    capture.discovery()
    capture.authorization()
    capture.token()
    capture.message(401, token="hmac:3", error="invalid_token", error_description="wrong audience")
    assert outcome_text(only(capture)) == "the server refused the new token: 401 invalid_token: wrong audience"


class TestNonce:
    """A server that asks for a nonce (DPoP) refuses nothing: the client is to repeat its request."""

    def test_a_login_in_which_both_endpoints_ask(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.authorization()
        capture.token(400, error="use_dpop_nonce", error_description="a nonce is required")
        capture.token()
        capture.message(401, token="hmac:3", error="use_dpop_nonce")
        capture.message(token="hmac:3")
        login = only(capture)
        assert outcome_text(login) == "token issued"
        lines = [(line.name, line.status, line.description) for line in summary_of(login).legs[-3:]]
        assert lines == [
            ("token", "400 use_dpop_nonce", "asked for a nonce, repeated"),
            ("token", "200", ""),
            ("challenge", "401 use_dpop_nonce", "asked for a nonce, repeated"),
        ]
        assert not any(line.has_failed for line in summary_of(login).legs)

    def test_a_client_that_does_not_repeat_the_request(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.authorization()
        capture.token(400, error="use_dpop_nonce")
        login = only(capture)
        assert (
            outcome_text(login) == "the client did not go on after token: the request was not repeated with the nonce"
        )
        assert leg_text(login.last) == "token: POST /token → 400 use_dpop_nonce: asked for a nonce"

    def test_another_error_after_the_nonce(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.authorization()
        capture.token(400, error="use_dpop_nonce")
        capture.token(400, error="invalid_dpop_proof")
        assert outcome_text(only(capture)) == "failed at token: 400 invalid_dpop_proof"

    def test_a_client_that_has_logged_in_before_begins_no_login(self, capture: LoginCapture) -> None:
        capture.message(token="hmac:3")
        capture.message(401, token="hmac:3", error="use_dpop_nonce")
        capture.message(token="hmac:3")
        assert logins(capture) == []


class TestUnfinished:
    def test_after_the_challenge(self, capture: LoginCapture) -> None:
        capture.message(401)
        assert outcome_text(only(capture)) == "the client did not go on after challenge: no metadata, no authorization"

    def test_after_the_metadata_of_the_resource(self, capture: LoginCapture) -> None:
        capture.message(401)
        capture.leg("resource-metadata", "GET", METADATA)
        assert outcome_text(only(capture)) == (
            "the client did not go on after resource metadata: no server metadata, no authorization"
        )

    def test_at_a_server_that_is_not_recorded(self, capture: LoginCapture) -> None:
        capture.message(401)
        capture.leg("resource-metadata", "GET", METADATA, as_server="https://as.example")
        assert outcome_text(only(capture)) == (
            "the client did not go on after resource metadata: "
            "this capture has no request to the authorization server https://as.example, "
            "and no message with a token"
        )

    def test_after_the_metadata_of_the_server(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.leg("resource-metadata", "GET", METADATA, as_server="https://mcp.example.org")
        assert outcome_text(only(capture)) == (
            "the client did not go on after server metadata: no registration, no authorization"
        )

    def test_after_the_registration(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.leg("registration", "POST", "/register", 201, client_id="hmac:1")
        assert outcome_text(only(capture)) == "the client did not go on after registration: no authorization"

    def test_after_the_redirect(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.authorization()
        assert outcome_text(only(capture)) == "the client did not go on after authorization: no token"

    def test_at_a_page(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.leg("authorize", "GET", "/authorize?response_type=code&client_id=hmac:1", 200, client_id="hmac:1")
        assert outcome_text(only(capture)) == (
            "the client did not go on after authorization: the page of the login was not completed, no token"
        )

    def test_when_the_recording_ended_before_the_client_was_certainly_gone(self, capture: LoginCapture) -> None:
        capture.discovery()
        assert outcome_text(only(capture, ends_soon=True)) == (
            "the client did not go on after server metadata until the recording ended, 0 ms later: "
            "no registration, no authorization"
        )

    def test_a_device_that_nobody_confirmed(self, capture: LoginCapture) -> None:
        capture.discovery()
        capture.leg("device", "POST", "/device", client_id="hmac:1")
        for _ in range(3):
            capture.token(400, "urn:ietf:params:oauth:grant-type:device_code", error="authorization_pending")
        login = only(capture)
        assert outcome_text(login).endswith("the user did not confirm the device code")
        assert [(leg.name, leg.times) for leg in summary_of(login).legs][-1] == ("token", 3)


def test_a_login_under_way(capture: LoginCapture) -> None:
    capture.discovery()
    assert outcome_text(only(capture, may_grow=True)) == "under way, after server metadata"
    assert not summary_of(only(capture, may_grow=True)).is_bad


def test_a_failure_is_told_before_it_is_certain_that_the_client_has_given_up(capture: LoginCapture) -> None:
    capture.discovery()
    capture.leg("registration", "POST", "/register", 403)
    assert outcome_text(only(capture, may_grow=True)) == "failed at registration: 403"


def test_metadata_without_need(capture: LoginCapture) -> None:
    capture.leg("resource-metadata", "GET", METADATA, 404)
    capture.leg("server-metadata", "GET", SERVER_METADATA, 404)
    capture.message()
    summary = summary_of(only(capture))
    assert summary.outcome == "not needed: the server did not ask for a token"
    assert not summary.is_bad
    assert not any(leg.has_failed for leg in summary.legs)


def test_several_clients_are_counted(capture: LoginCapture) -> None:
    capture.discovery()
    capture.leg("registration", "POST", "/register", 201, client_id="hmac:1")
    capture.client, capture.program = "198.51.100.9:5", "browser/2"
    capture.leg("authorize", "GET", "/authorize?response_type=code&client_id=hmac:1", 302, client_id="hmac:1")
    assert client_text(only(capture)) == "203.0.113.7 connector/1.0 and 1 other client"


def test_requests_without_a_program_are_not_another_client(capture: LoginCapture) -> None:
    capture.program = ""
    capture.message(401)
    capture.program = "connector/1.0"
    capture.leg("resource-metadata", "GET", METADATA)
    capture.leg("registration", "POST", "/register", 201, client_id="hmac:1")
    capture.client, capture.program = "198.51.100.9:5", ""
    capture.leg("authorize", "GET", "/authorize?response_type=code&client_id=hmac:1", 302, client_id="hmac:1")
    assert client_text(only(capture)) == "203.0.113.7 connector/1.0"


def test_the_facts_of_a_leg(capture: LoginCapture) -> None:
    capture.authorization(error="invalid_scope", error_description="no such scope")
    leg = logins(capture)[0].last
    assert [(fact.name, fact.text, fact.is_bad) for fact in leg_facts(leg)] == [
        ("scope", "notes", False),
        ("resource", "https://mcp.example.org/mcp", False),
        ("client id", "hmac:1", False),
        ("PKCE method", "S256", False),
        ("error", "invalid_scope", True),
        ("description", "no such scope", False),
    ]


def test_a_summary_lists_at_most_the_legs_that_are_kept(capture: LoginCapture) -> None:
    for number in range(100):
        capture.token(400, error=f"error-{number}")
    summary = summary_of(only(capture))
    assert summary.request_count == 100
    assert len(summary.legs) == MAX_LEGS
    assert summary.omitted_count == 100 - MAX_LEGS
    assert [leg.status for leg in summary_of(only(capture), after=99).legs] == ["400 error-99"]


@pytest.mark.parametrize(
    "text", ["\x1b[31m\x07", "\u202egnp.exe\u2066", "<script>a</script>", "x" * 2048, "\n\r"], ids=str.__len__
)
def test_no_text_of_a_peer_acts_on_a_terminal(capture: LoginCapture, text: str) -> None:
    capture.program = text
    facts = dict.fromkeys(("scope", "resource", "iss", "redirect_uri", "error_uri", "as_server", "client_id"), text)
    capture.leg("resource-metadata", "GET", f"/{text}", 200, **facts)
    capture.leg("token", "POST", f"/{text}", 400, **facts, error=text, error_description=text, grant_type=text)
    for login in logins(capture):
        texts = [login_text(login), outcome_text(login), *(leg_text(leg) for leg in login.legs)]
        texts += [leg_result(leg) for leg in login.legs]
        texts += [fact.text for leg in login.legs for fact in leg_facts(leg)]
        assert not any(map(UNSAFE.search, texts))
        assert all(len(shown) <= 1100 for shown in texts)
