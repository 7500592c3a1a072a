"""Logins: to which login each leg belongs, and what becomes of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation import logins as module
from analysis.conversation.fold import Fold
from analysis.conversation.login import MAX_LEGS, Login
from analysis.conversation.logins import MAX_LOGINS, Logins
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from tests.analysis.growth import assert_linear
from tests.examples import examples

S = 1_000_000_000
HOST = "https://mcp.example"
CLIENT = ("198.51.100.7", "client/1")
BROWSER = ("203.0.113.9", "Mozilla/5.0")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
URL_ID = "https://client.example/id.json"


class Traffic:
    """Exchanges with a server, one second apart unless told otherwise, as records fed to the fold."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.seq = -1
        self.t_ns = 0
        self.number = 0
        self.record("header", transport="http", capture="0", observed_start=True, public=f"{HOST}/mcp")

    def record(self, rec: str, **members: Any) -> None:
        self.seq += 1
        self.fold.feed(Record(self.seq, rec, self.t_ns, members))

    def pause(self, seconds: float) -> None:
        self.t_ns += int(seconds * S)

    def begin(
        self, target: str = "/mcp", client: tuple[str, str] = CLIENT, token: str = "", method: str = "POST", **more: Any
    ) -> int:
        """Send a request; returns its number."""
        self.number += 1
        headers = [["User-Agent", client[1]]] + ([["Authorization", f"Bearer {token}"]] if token else [])
        request = {"method": method, "target": target, "headers": headers}
        place = {"exchange": more.get("number", self.number), "peer": "127.0.0.1:1", "forwarded_for": client[0]}
        self.record("exchange", stage="request", request=request, **place)
        self.pause(0.1)
        return self.number

    def end(self, number: int, status: int | None = 200, fields: dict[str, Any] | None = None, **more: Any) -> None:
        """Answer a request."""
        if status is not None:
            more["response"] = {"status": status, "headers": [[*pair] for pair in (fields or {}).items()]}
        self.record("exchange", exchange=number, stage="end", ended_by="complete", **more)
        self.pause(1)

    def leg(
        self,
        kind: str,
        status: int | None = 200,
        client: tuple[str, str] = CLIENT,
        token: str = "",
        has_code: bool = False,
        fields: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Login | None:
        """Send the request of a leg, and answer it; returns its login."""
        number = self.begin(f"/{kind}", client, token)
        more = {"metadata": "{}"} if kind.endswith("metadata") and status == 200 else {}
        oauth = {"leg": kind, **facts} | ({"has_code": True} if has_code else {})
        self.end(number, status, fields, oauth=oauth, **more)
        return self.fold.logins.of_exchange(number)

    def message(self, client: tuple[str, str] = CLIENT, token: str = "", status: int = 200) -> None:
        """Send a message that the endpoint accepts."""
        number = self.begin("/mcp", client, token)
        self.seq += 1
        place: dict[str, Any] = {"exchange": number, "unit": "http_body"}
        self.fold.feed(Frame(self.seq, self.t_ns, "c2s", PING, judge(PING, "c2s"), **place))
        self.end(number, status)

    def challenge(self, client: tuple[str, str] = CLIENT, token: str = "", status: int = 401, **facts: Any) -> None:
        self.leg("challenge", status, client, token, fields={"WWW-Authenticate": "Bearer"}, **facts)

    def discovery(self, client: tuple[str, str] = CLIENT) -> None:
        self.leg("resource-metadata", client=client, resource=f"{HOST}/mcp", as_server=HOST)
        self.leg("server-metadata", client=client, iss=HOST)

    def authorize(self, client: tuple[str, str] = BROWSER, **facts: Any) -> Login | None:
        return self.leg("authorize", 302, client, has_code="error" not in facts, **facts)

    def token(self, client: tuple[str, str] = CLIENT, status: int | None = 200, **facts: Any) -> Login | None:
        return self.leg("token", status, client, **{"grant_type": "authorization_code", **facts})

    def ended(self) -> list[Login]:
        """The logins at the end of the capture."""
        self.fold.flush()
        return self.fold.logins.all()

    def outcomes(self) -> list[str]:
        return [login.outcome for login in self.ended()]

    def only(self) -> Login:
        (login,) = self.ended()
        assert login.is_over
        return login


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


def kinds(login: Login) -> str:
    return " ".join(leg.kind for leg in login.legs)


def failed(login: Login) -> str | None:
    return None if login.failed_leg is None else f"{login.failed_leg.kind} {login.failed_leg.http.status}"


def remembered_count(logins: Logins) -> int:
    """How many logins and texts are remembered to find the login of the next leg."""
    indexes = logins._by_address, logins._by_client_id, logins._paused_by_client_id
    return len(logins._open_logins) + sum(len(index) for index in indexes)


def test_a_whole_login(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 201, client_id="hmac:1")
    traffic.authorize(client_id="hmac:1")
    assert not traffic.fold.logins.all()[0].is_over
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    login = traffic.fold.logins.all()[0]
    assert kinds(login) == "challenge resource-metadata server-metadata registration authorize token"
    assert (login.outcome, login.is_over, login.guessed_count, login.failed_leg) == ("granted", True, 0, None)
    assert login.accepted is not None
    assert login.accepted.number == 7
    assert login.clients == {CLIENT, BROWSER}
    assert (login.started_ns, login.ended_ns) == (0, int(5 * 1.1 * S + 0.1 * S))
    assert not login.server_elsewhere
    assert traffic.only() is login


def test_one_browser_as_client(traffic: Traffic) -> None:
    traffic.challenge(BROWSER)
    traffic.discovery(BROWSER)
    traffic.leg("registration", 201, BROWSER, client_id="hmac:1")
    traffic.authorize(client_id="hmac:1")
    traffic.token(BROWSER, client_id="hmac:1")
    traffic.message(BROWSER, "new")
    login = traffic.only()
    assert (login.outcome, login.count, login.guessed_count) == ("granted", 6, 0)


def test_a_client_that_does_not_name_its_program_in_every_request(traffic: Traffic) -> None:
    nameless = CLIENT[0], ""  # as the official SDK for Python does
    traffic.challenge()
    traffic.challenge((CLIENT[0], "another/1"))
    traffic.pause(-1.05)
    traffic.challenge()
    traffic.discovery(nameless)
    traffic.leg("registration", 201, nameless, client_id="hmac:1")
    traffic.authorize(client_id="hmac:1")
    traffic.token(nameless, client_id="hmac:1")
    traffic.message(token="new")
    assert [(login.outcome, login.count, login.guessed_count) for login in traffic.ended()] == [
        ("granted", 7, 0),
        ("unfinished", 1, 0),
    ]


def test_a_client_that_never_names_its_program(traffic: Traffic) -> None:
    traffic.leg("challenge", 401, (CLIENT[0], ""))
    traffic.discovery()
    traffic.discovery((CLIENT[0], "another/1"))
    assert [login.count for login in traffic.ended()] == [3, 2]


def test_a_client_that_reads_the_metadata_again_before_it_asks_for_the_token(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1")
    traffic.discovery()
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    login = traffic.only()
    assert (login.outcome, login.count, login.guessed_count) == ("granted", 7, 1)


def test_a_client_id_that_several_users_share(traffic: Traffic) -> None:
    others = ("203.0.113.10", "Safari"), ("203.0.113.11", "Firefox")
    for browser in others:
        traffic.challenge()
        traffic.discovery()
        traffic.authorize(browser, client_id=URL_ID)
    for number in (1, 2):
        traffic.token(client_id=URL_ID)
        traffic.message(token=f"token {number}")
    logins = traffic.ended()
    assert [login.outcome for login in logins] == ["granted"] * 2
    assert {kinds(login) for login in logins} == {"challenge resource-metadata server-metadata authorize token"}
    assert [login.browser for login in logins] == [*others]


def test_the_second_user_of_a_shared_client_id_does_not_come_back(traffic: Traffic) -> None:
    for browser in (BROWSER, ("203.0.113.10", "Safari")):
        traffic.challenge()
        traffic.discovery()
        traffic.authorize(browser, client_id=URL_ID)
    traffic.token(client_id=URL_ID)
    traffic.message(token="a")
    assert sorted(traffic.outcomes()) == ["granted", "unfinished"]


def test_two_clients_with_the_same_address_and_program_that_register(traffic: Traffic) -> None:
    for number in (1, 2):
        traffic.challenge()
        traffic.discovery()
        traffic.leg("registration", 201, client_id=f"hmac:{number}")
        traffic.authorize((f"203.0.113.{number}", "Safari"), client_id=f"hmac:{number}")
    traffic.token(client_id="hmac:2", status=400, error="invalid_grant")
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    first, second = traffic.ended()
    assert (first.outcome, second.outcome, failed(second)) == ("granted", "failed", "token 400")
    assert first.count == second.count == 6
    assert first.guessed_count == second.guessed_count == 0


def test_two_clients_with_the_same_address_and_program_that_begin_at_once(traffic: Traffic) -> None:
    for _ in range(2):
        traffic.challenge()
    for _ in range(2):
        traffic.leg("resource-metadata", resource=f"{HOST}/mcp", as_server=HOST)
    for number in (1, 2):
        traffic.leg("registration", 201, client_id=f"hmac:{number}")
    for number in (1, 2):
        traffic.authorize((f"203.0.113.{number}", "Safari"), client_id=f"hmac:{number}")
    for number in (1, 2):
        traffic.token(client_id=f"hmac:{number}")
        traffic.message(token=f"token {number}")
    assert traffic.outcomes() == ["granted", "granted"]


@pytest.mark.parametrize("browsers", [(BROWSER, BROWSER), (BROWSER, (BROWSER[0], "Safari"))])
def test_two_clients_with_the_same_client_id(traffic: Traffic, browsers: tuple[tuple[str, str], ...]) -> None:
    clients = CLIENT, (CLIENT[0], "another/1")
    for client in clients:
        traffic.challenge(client)
        traffic.discovery(client)
    for client in clients:
        traffic.leg("registration", 201, client, client_id="hmac:1")
    for browser in browsers:
        traffic.authorize(browser, client_id="hmac:1")
    traffic.token(clients[0], client_id="hmac:1")
    traffic.token(clients[1], 400, client_id="hmac:1", error="invalid_grant")
    traffic.message(clients[0], token="new")
    logins = traffic.ended()
    assert [(login.outcome, login.count) for login in logins] == [("granted", 6), ("failed", 6)]
    assert [login.first.client for login in logins] == [*clients]
    assert sum(login.guessed_count for login in logins) == 1  # which of the two the first page is for


def test_only_the_order_decides(traffic: Traffic) -> None:
    for _ in range(2):
        traffic.leg("registration", 201, client_id="hmac:1")
        traffic.pause(1)
    for _ in range(2):
        traffic.authorize(client_id="hmac:1")
    for _ in range(2):
        traffic.token(client_id="hmac:1")
    logins = traffic.ended()
    assert [kinds(login) for login in logins] == ["registration authorize token"] * 2
    assert sum(login.guessed_count for login in logins) == 2  # the first page and the first token


def test_a_page_in_several_steps_while_another_login_waits(traffic: Traffic) -> None:
    another = CLIENT[0], "another/1"
    for client in (another, CLIENT):
        traffic.leg("registration", 201, client, client_id="hmac:1")
    traffic.leg("authorize", 200, BROWSER, client_id="hmac:1")
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    assert [kinds(login) for login in traffic.ended()] == ["registration", "registration authorize authorize token"]


def test_callbacks_of_two_logins_with_the_same_browser(traffic: Traffic) -> None:
    for number in (1, 2):
        traffic.leg("registration", 201, (f"198.51.100.{number}", "client/1"), client_id=f"hmac:{number}")
        traffic.leg("authorize", 302, BROWSER, client_id=f"hmac:{number}")
    for _ in range(2):
        traffic.leg("callback", 302, BROWSER, has_code=True)
    logins = traffic.ended()
    assert [kinds(login) for login in logins] == ["registration authorize callback"] * 2
    assert sum(login.guessed_count for login in logins) == 1


def test_a_message_of_another_user_does_not_end_a_login(traffic: Traffic) -> None:
    traffic.message(token="of another user")
    traffic.challenge()
    traffic.discovery()
    traffic.message(token="of another user")
    login = traffic.only()
    assert (login.outcome, login.accepted) == ("unfinished", None)


def test_a_service_with_several_addresses(traffic: Traffic) -> None:
    services = [(f"198.51.100.{number}", "service/1") for number in range(4)]
    traffic.challenge(services[0])
    traffic.leg("resource-metadata", client=services[1], as_server=HOST)
    traffic.leg("server-metadata", client=services[2], iss=HOST)
    traffic.authorize(client_id=URL_ID)
    traffic.token(services[3], client_id=URL_ID)
    login = traffic.only()
    assert (login.outcome, login.count, login.guessed_count) == ("granted", 5, 3)


def test_an_attempt_during_another_is_not_left_unfinished(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 201, client_id="hmac:1")
    traffic.authorize(client_id="hmac:1")
    traffic.challenge()
    traffic.discovery()
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    assert traffic.outcomes() == ["granted", "granted"]


def test_a_device(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.leg("device", client_id="hmac:1")
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    for _ in range(3):
        traffic.token(status=400, client_id="hmac:1", grant_type=grant, error="authorization_pending")
    (login,) = traffic.fold.logins.all()
    assert (login.outcome, login.failed_leg) == ("unfinished", None)
    for _ in range(100):
        traffic.token(status=400, client_id="hmac:1", grant_type=grant, error="slow_down")
    traffic.token(client_id="hmac:1", grant_type=grant)
    assert login.outcome == "granted"
    assert (len(login.legs), login.count) == (MAX_LEGS, 106)
    traffic.message(token="new")
    assert traffic.only().outcome == "granted"


def test_a_device_that_is_refused(traffic: Traffic) -> None:
    traffic.leg("device", client_id="hmac:1")
    traffic.token(status=400, client_id="hmac:1", error="authorization_pending")
    traffic.token(status=400, client_id="hmac:1", error="expired_token")
    login = traffic.only()
    assert (login.outcome, failed(login)) == ("failed", "token 400")


def test_client_credentials(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.token(client_id="hmac:1", grant_type="client_credentials")
    traffic.message(token="new")
    login = traffic.only()
    assert (login.outcome, login.is_renewal, login.count) == ("granted", False, 4)


def test_a_token_is_renewed_in_time(traffic: Traffic) -> None:
    for number in range(3):
        traffic.token(client_id="hmac:1", grant_type="refresh_token")
        traffic.message(token=f"token {number}")
        traffic.message(token=f"token {number}")
    logins = traffic.ended()
    assert [(login.outcome, login.is_renewal, login.count) for login in logins] == [("granted", True, 1)] * 3


def test_a_token_is_renewed_after_a_challenge(traffic: Traffic) -> None:
    traffic.message(token="old")
    late = traffic.begin(token="old")
    traffic.challenge(token="old", error="invalid_token")
    traffic.challenge(token="old", error="invalid_token")
    traffic.discovery()
    traffic.token(client_id="hmac:1", grant_type="refresh_token")
    traffic.end(late, 401, oauth={"leg": "challenge"})
    assert traffic.fold.logins.all()[0].outcome == "granted"
    traffic.message(token="new")
    login = traffic.only()
    assert (login.outcome, login.is_renewal, login.count, login.guessed_count) == ("granted", True, 6, 0)


def test_a_token_cannot_be_renewed_so_the_user_is_asked(traffic: Traffic) -> None:
    traffic.token(client_id="hmac:1", status=400, grant_type="refresh_token", error="invalid_grant")
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    login = traffic.only()
    assert (login.outcome, login.is_renewal, login.count) == ("granted", False, 6)


def test_a_token_cannot_be_renewed(traffic: Traffic) -> None:
    traffic.token(client_id="hmac:1", status=400, grant_type="refresh_token", error="invalid_grant")
    login = traffic.only()
    assert (login.outcome, login.is_renewal, failed(login)) == ("failed", True, "token 400")


def test_step_up(traffic: Traffic) -> None:
    traffic.message(token="small")
    traffic.challenge(token="small", status=403, error="insufficient_scope", scope="more")
    traffic.message(token="small")
    traffic.authorize(client_id="hmac:1", scope="more")
    traffic.message(token="small")
    traffic.token(client_id="hmac:1")
    traffic.message(token="large")
    login = traffic.only()
    assert (kinds(login), login.outcome) == ("challenge authorize token", "granted")
    assert login.accepted is not None
    assert login.accepted.fields["authorization"] == "Bearer large"


def test_step_up_that_the_client_ignores(traffic: Traffic) -> None:
    traffic.message(token="small")
    for _ in range(5):
        traffic.challenge(token="small", status=403, error="insufficient_scope")
        traffic.message(token="small")
    login = traffic.only()
    assert (login.outcome, login.count) == ("unfinished", 5)


def test_a_plain_refusal_is_no_login(traffic: Traffic) -> None:
    traffic.leg("challenge", 403)
    traffic.leg("challenge", 403, token="a")
    assert traffic.ended() == []


def test_metadata_at_the_root(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.leg("resource-metadata", 404)
    traffic.leg("resource-metadata", as_server=HOST)
    traffic.leg("server-metadata", 404)
    (login,) = traffic.fold.logins.all()
    assert (login.outcome, failed(login)) == ("failed", "server-metadata 404")
    traffic.leg("server-metadata", iss=HOST)
    assert (login.outcome, login.failed_leg) == ("unfinished", None)
    traffic.leg("server-metadata", 404)
    assert (traffic.only().outcome, login.failed_leg) == ("unfinished", None)


def test_metadata_nowhere(traffic: Traffic) -> None:
    traffic.challenge()
    for kind in ("resource-metadata", "server-metadata"):
        traffic.leg(kind, 404)
        traffic.leg(kind, 404)
    traffic.leg("registration", 404)
    login = traffic.only()
    assert (login.outcome, failed(login), login.count) == ("failed", "server-metadata 404", 6)


def test_a_registration_that_is_refused_without_metadata(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.leg("server-metadata", 404)
    traffic.leg("registration", 400, error="invalid_redirect_uri")
    assert failed(traffic.only()) == "registration 400"


@pytest.mark.parametrize(
    ("status", "fields", "metadata", "is_found"),
    [
        (200, {"Content-Type": "text/html"}, None, False),
        (200, {"Content-Type": "application/json"}, None, True),
        (200, {"Content-Type": "text/plain"}, "{}", True),
        (304, {}, None, True),
        (307, {"Location": "/login"}, None, False),
    ],
)
def test_a_page_is_no_metadata(
    traffic: Traffic, status: int, fields: dict[str, str], metadata: str | None, is_found: bool
) -> None:
    traffic.challenge()
    number = traffic.begin("/.well-known/oauth-protected-resource")
    more = {} if metadata is None else {"metadata": metadata}
    traffic.end(number, status, fields, oauth={"leg": "resource-metadata"}, **more)
    assert traffic.only().outcome == ("unfinished" if is_found else "failed")


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("is_challenged", [True, False])
def test_a_server_elsewhere(traffic: Traffic, comes_back: bool, is_challenged: bool) -> None:
    elsewhere = "https://login.example/tenant"
    if is_challenged:
        traffic.challenge()
    traffic.leg("resource-metadata", resource=f"{HOST}/mcp", as_server=elsewhere)
    if comes_back:
        traffic.message(token="new")
    login = traffic.only()
    assert (login.outcome, login.server_elsewhere) == ("granted" if comes_back else "unfinished", elsewhere)


def test_a_token_of_a_server_elsewhere_is_refused(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.leg("resource-metadata", resource=f"{HOST}/mcp", as_server="https://login.example")
    traffic.challenge(token="new", error="invalid_token")
    login = traffic.only()
    assert login.outcome == "rejected"
    assert login.rejection is login.last


def test_the_servers_own_address_is_not_elsewhere(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.leg("resource-metadata", as_server=f"{HOST}/tenant")
    assert (traffic.only().outcome, traffic.only().server_elsewhere) == ("unfinished", "")


def test_a_new_token_is_refused(traffic: Traffic) -> None:
    for number in range(2):
        traffic.challenge()
        traffic.discovery()
        traffic.token(client_id="hmac:1")
        traffic.challenge(token=f"token {number}", error="invalid_token")
    logins = traffic.ended()
    assert [(login.outcome, login.count) for login in logins] == [("rejected", 5)] * 2
    assert [login.rejection for login in logins] == [login.last for login in logins]


def test_a_new_token_is_refused_with_403(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.token(client_id="hmac:1")
    traffic.leg("challenge", 403, token="new")
    assert traffic.outcomes() == ["rejected"]


def test_an_old_token_is_not_a_new_one_that_is_refused(traffic: Traffic) -> None:
    traffic.leg("server-metadata")
    traffic.challenge(token="old", error="invalid_token")
    traffic.token(client_id="hmac:1", grant_type="refresh_token")
    traffic.message(token="new")
    assert [(login.outcome, login.rejection) for login in traffic.ended()][-1] == ("granted", None)
    assert "rejected" not in traffic.outcomes()


def test_a_client_that_never_sends_its_token(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.token(client_id="hmac:1")
    (login,) = traffic.fold.logins.all()
    assert login.outcome == "granted"
    traffic.challenge()
    traffic.challenge()
    assert (traffic.only().outcome, login.count) == ("unused", 6)


def test_a_client_that_sends_its_token_only_later(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.token(client_id="hmac:1")
    traffic.challenge()
    traffic.message(token="new")
    assert traffic.outcomes() == ["granted"]


def test_a_client_that_never_sends_a_credential(traffic: Traffic) -> None:
    for _ in range(50):
        traffic.challenge()
    login = traffic.only()
    assert (login.outcome, login.count, len(login.legs)) == ("unfinished", 50, MAX_LEGS)


def test_a_key_in_a_header_is_a_credential(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.message(token="key")
    assert traffic.outcomes() == ["granted"]


def test_registration_is_refused(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 403)
    login = traffic.only()
    assert (login.outcome, failed(login)) == ("failed", "registration 403")


def test_registration_is_tried_again(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 400, error="invalid_client_metadata")
    traffic.leg("registration", 201, client_id="hmac:1")
    login = traffic.only()
    assert (login.outcome, login.failed_leg, login.count) == ("unfinished", None, 5)


def test_another_attempt_after_a_failure_is_another_login(traffic: Traffic) -> None:
    for _ in range(2):
        traffic.challenge()
        traffic.discovery()
        traffic.leg("registration", 403)
    assert [(login.outcome, login.count) for login in traffic.ended()] == [("failed", 4)] * 2


def test_the_user_refuses(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1", error="access_denied", error_description="no")
    login = traffic.only()
    assert (login.outcome, failed(login)) == ("failed", "authorize 302")
    assert login.failed_leg is not None
    assert login.failed_leg.error == "access_denied"


def test_a_page_that_the_user_leaves(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("authorize", 200, BROWSER, client_id="hmac:1")
    login = traffic.only()
    assert (login.outcome, login.last.kind, login.failed_leg) == ("unfinished", "authorize", None)


@pytest.mark.parametrize("is_issued", [False, True])
def test_another_browser_after_the_code_is_another_login(traffic: Traffic, is_issued: bool) -> None:
    traffic.challenge()
    traffic.discovery()
    first = traffic.leg("registration", 201, client_id="hmac:1")
    assert traffic.authorize(client_id="hmac:1") is first
    if is_issued:
        assert traffic.token(client_id="hmac:1") is first
    assert traffic.authorize(("192.0.2.5", "Mozilla/5.0"), client_id="hmac:1") is not first


def test_another_browser_before_the_code_is_the_same_login(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    first = traffic.leg("registration", 201, client_id="hmac:1")
    assert traffic.leg("authorize", 200, BROWSER, client_id="hmac:1") is first
    assert traffic.authorize(("192.0.2.5", "Mozilla/5.0"), client_id="hmac:1") is first


def test_an_error_with_a_status_of_success_is_a_failure(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1", error="bad_verification_code")
    login = traffic.only()
    assert (login.outcome, failed(login)) == ("failed", "token 200")


def test_a_page_that_fails_is_a_failure(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("authorize", 500, BROWSER, client_id="hmac:1")
    login = traffic.only()
    assert (login.outcome, failed(login)) == ("failed", "authorize 500")


def test_a_message_at_the_moment_of_the_token_uses_it(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    traffic.pause(-1)
    traffic.message(token="new")
    assert traffic.only().accepted is not None


def test_a_token_endpoint_that_redirects(traffic: Traffic) -> None:
    traffic.token(status=307, client_id="hmac:1")
    (login,) = traffic.fold.logins.all()
    assert (login.outcome, failed(login)) == ("failed", "token 307")
    traffic.token(client_id="hmac:1")
    assert traffic.only().outcome == "granted"


def test_an_answer_that_never_comes(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.token(client_id="hmac:1", status=None)
    assert failed(traffic.only()) == "token None"


def test_a_callback_of_a_server_that_is_a_client_itself(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("authorize", 302, BROWSER, client_id="hmac:1")
    traffic.leg("callback", 302, BROWSER, has_code=True)
    traffic.token(client_id="hmac:1")
    login = traffic.only()
    assert (login.outcome, login.count) == ("granted", 6)


def test_revocation_and_introspection_are_apart(traffic: Traffic) -> None:
    traffic.leg("introspection", client_id="hmac:1")
    traffic.leg("revocation", client_id="hmac:1")
    traffic.challenge()
    traffic.discovery()
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    traffic.leg("revocation", client_id="hmac:1")
    logins = traffic.ended()
    assert [(kinds(login), login.outcome) for login in logins] == [
        ("introspection revocation revocation", "revoked"),
        ("challenge resource-metadata server-metadata token", "granted"),
    ]


def test_metadata_that_is_not_needed(traffic: Traffic) -> None:
    traffic.leg("resource-metadata", 404)
    traffic.leg("server-metadata", 404)
    (login,) = traffic.fold.logins.all()
    assert login.outcome == "unneeded"
    traffic.message()
    assert (login.outcome, login.is_over) == ("unneeded", True)
    traffic.leg("resource-metadata", 404)
    assert traffic.outcomes() == ["unneeded", "unneeded"]


def test_metadata_that_is_there_and_not_needed(traffic: Traffic) -> None:
    traffic.discovery()
    traffic.message()
    assert traffic.outcomes() == ["unneeded"]


def test_metadata_that_is_read_again_and_again(traffic: Traffic) -> None:
    for _ in range(100):
        traffic.leg("resource-metadata", 404)
        traffic.pause(60)
    login = traffic.only()
    assert (login.outcome, login.count, len(login.legs)) == ("unneeded", 100, MAX_LEGS)


def test_metadata_that_is_read_while_a_message_is_under_way(traffic: Traffic) -> None:
    number = traffic.begin()
    traffic.leg("server-metadata", 404)
    traffic.end(number)
    assert not traffic.fold.logins.all()[0].is_over


def test_a_client_that_reads_the_metadata_and_never_comes_back(traffic: Traffic) -> None:
    traffic.discovery()
    assert traffic.outcomes() == ["unfinished"]


def test_a_long_pause(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.pause(31 * 60)
    traffic.message(token="new")
    (login,) = traffic.fold.logins.all()
    assert (login.outcome, login.is_over) == ("unfinished", True)
    traffic.challenge()
    assert [login.count for login in traffic.ended()] == [3, 1]


def asked(traffic: Traffic) -> None:
    """Begin a login, as far as the page."""
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 201, client_id="hmac:1")
    traffic.leg("authorize", 200, BROWSER, client_id="hmac:1")


def test_a_login_goes_on_after_a_long_pause(traffic: Traffic) -> None:
    asked(traffic)
    traffic.pause(59 * 60)
    traffic.message(("192.0.2.1", "other/1"))
    (login,) = traffic.fold.logins.all()
    assert (login.outcome, login.is_paused, login.is_over) == ("unfinished", True, False)
    assert [*traffic.fold.logins.changed] == [login]
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    assert not login.is_paused
    traffic.message(token="new")
    assert (traffic.only().outcome, login.count, login.guessed_count) == ("granted", 7, 0)


def test_a_client_begins_anew_after_a_long_pause(traffic: Traffic) -> None:
    asked(traffic)
    traffic.pause(59 * 60)
    traffic.challenge()
    traffic.discovery()
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    logins = traffic.ended()
    assert [(login.outcome, login.count) for login in logins] == [("unfinished", 5), ("granted", 5)]


@pytest.mark.parametrize("reason", ["URL", "two", "failed", "renewal"])
def test_a_login_that_does_not_go_on_after_a_long_pause(traffic: Traffic, reason: str) -> None:
    client_id = URL_ID if reason == "URL" else "hmac:1"
    for number in range(2 if reason == "two" else 1):
        client = f"198.51.100.{number}", "client/1"
        traffic.leg("registration", 400 if reason == "failed" else 201, client, client_id=client_id)
        traffic.leg("authorize", 200, (client[0], "Safari"), client_id=client_id)
        if reason == "failed":
            traffic.authorize((client[0], "Safari"), client_id=client_id, error="access_denied")
    traffic.pause(31 * 60)
    traffic.token(client_id=client_id, grant_type="refresh_token" if reason == "renewal" else "authorization_code")
    login = traffic.ended()[-1]
    assert (login.outcome, login.count) == ("granted", 1)


def test_a_page_that_takes_an_hour(traffic: Traffic) -> None:
    traffic.challenge()
    number = traffic.begin("/authorize", BROWSER)
    traffic.pause(60 * 60)
    traffic.end(number, 302, oauth={"leg": "authorize", "client_id": "hmac:1", "has_code": True})
    traffic.token(client_id="hmac:1")
    assert (traffic.only().outcome, traffic.only().count) == ("granted", 3)


def test_paused_logins_are_forgotten_without_loss(traffic: Traffic) -> None:
    for number in range(MAX_LOGINS + 7):
        traffic.leg("registration", 201, (f"client {number}", ""), client_id=f"hmac:{number}")
        traffic.pause(31 * 60)
    logins = traffic.fold.logins
    assert len(logins._paused_by_client_id) < MAX_LOGINS
    assert (logins.forgotten_count, logins.forgotten_open_count) == (7, 0)
    traffic.ended()
    assert remembered_count(logins) == 0


def test_a_short_pause(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.discovery()
    traffic.leg("registration", 201, client_id="hmac:1")
    traffic.pause(29 * 60)
    traffic.authorize(client_id="hmac:1")
    traffic.pause(29 * 60)
    traffic.token(client_id="hmac:1")
    assert traffic.only().outcome == "granted"


def test_a_capture_that_begins_in_the_middle(traffic: Traffic) -> None:
    traffic.authorize(client_id="hmac:1")
    traffic.token(client_id="hmac:1")
    traffic.message(token="new")
    login = traffic.only()
    assert (kinds(login), login.outcome) == ("authorize token", "granted")


def test_a_capture_that_begins_at_the_end(traffic: Traffic) -> None:
    traffic.token(client_id="hmac:1")
    assert traffic.outcomes() == ["granted"]


def test_an_exchange_that_is_never_ended(traffic: Traffic) -> None:
    traffic.challenge()
    number = traffic.begin("/authorize", BROWSER)
    login = traffic.only()
    assert (login.count, traffic.fold.logins.of_exchange(number)) == (1, None)


def test_a_number_that_comes_twice(traffic: Traffic) -> None:
    traffic.challenge()
    for _ in range(3):
        traffic.end(1, 401, oauth={"leg": "challenge"})
    assert traffic.only().count == 1


@pytest.mark.parametrize(("when", "is_unbroken"), [("before", True), ("during", False)])
def test_losses(traffic: Traffic, when: str, is_unbroken: bool) -> None:
    if when == "before":
        traffic.record("gap", first=1, last=9, reason="slow")
    traffic.challenge()
    if when == "during":
        traffic.record("gap", first=1, last=9, reason="slow")
    traffic.discovery()
    assert traffic.only().is_unbroken == is_unbroken


def test_a_loss_after_the_last_leg(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.record("gap", first=1, last=9, reason="slow")
    assert not traffic.only().is_unbroken


@pytest.mark.parametrize("facts", [{}, {"leg": 7}, {"leg": "other"}, {"error": "x"}, {"leg": None}])
def test_what_is_no_leg(traffic: Traffic, facts: dict[str, Any]) -> None:
    number = traffic.begin("/token")
    traffic.end(number, 400, oauth=facts)
    assert traffic.ended() == []


def test_what_the_recorder_answers_itself_is_no_leg(traffic: Traffic) -> None:
    number = traffic.begin("/token")
    response = {"status": 502, "headers": [], "by": "proxy"}
    traffic.record("exchange", exchange=number, stage="end", response=response, oauth={"leg": "token"})
    assert traffic.ended() == []


def test_long_texts_are_cut(traffic: Traffic) -> None:
    traffic.token(status=400, error="x" * 10_000, client_id="y" * 10_000, other="z")
    (leg,) = traffic.only().legs
    assert {name: len(text) for name, text in leg.facts.items()} == {
        "leg": 5,
        "grant_type": 18,
        "error": 2048,
        "client_id": 2048,
    }


def test_what_changed(traffic: Traffic) -> None:
    logins = traffic.fold.logins
    assert not logins
    traffic.challenge()
    assert [*logins.changed] == logins.all()
    number = traffic.begin("/.well-known")
    assert not logins.changed
    traffic.end(number, 404, oauth={"leg": "resource-metadata"})
    assert [*logins.changed] == logins.all()
    traffic.message(token="new")
    assert [*logins.changed] == logins.all()
    assert logins.all()[0].is_over


def test_an_open_capture_ends_no_login(traffic: Traffic) -> None:
    traffic.challenge()
    traffic.fold.flush(is_open=True)
    (login,) = traffic.fold.logins.all()
    assert not login.is_over
    assert traffic.only() is login


def test_many_logins_are_forgotten(traffic: Traffic) -> None:
    for number in range(MAX_LOGINS + 7):
        traffic.challenge((f"client {number}", ""))
        traffic.pause(-1)
    logins = traffic.ended()
    assert [login.number for login in (logins[0], logins[-1])] == [8, MAX_LOGINS + 7]
    assert traffic.fold.logins.count == MAX_LOGINS + 7
    assert traffic.fold.logins.forgotten_count == 7
    (entry,) = traffic.fold.forgotten_entries
    assert (entry.what, entry.times) == ("logins", 7)


def test_logins_that_are_over_are_forgotten_without_loss(traffic: Traffic) -> None:
    for _ in range(MAX_LOGINS + 7):
        traffic.leg("server-metadata", 404)
        traffic.message()
    assert traffic.fold.logins.forgotten_count == 7
    assert traffic.fold.forgotten_entries == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_challenge_that_refuses_a_new_token_has_a_client_id(traffic: Traffic, is_shared: bool) -> None:
    if is_shared:
        traffic.leg("registration", 201, ("198.51.100.8", "another/1"), client_id="hmac:2")
    traffic.challenge()
    traffic.token(client_id="hmac:1")
    traffic.challenge(token="new", client_id="hmac:2")
    login = traffic.ended()[-1]
    assert (login.outcome, login.client_ids) == ("rejected", {"hmac:1", "hmac:2"})
    assert remembered_count(traffic.fold.logins) == 0


_KINDS = [
    *("challenge", "resource-metadata", "server-metadata", "registration", "device", "authorize", "callback", "token"),
    *("revocation", "introspection", "challenge", "challenge", "token", "token"),
]
_GRANTS = ["authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code"]
_junk = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=1)


def mostly(values: list[Any]) -> st.SearchStrategy[Any]:
    """One of some values, or rarely something that is no such value."""
    return st.integers(0, 19).flatmap(lambda chance: _junk if chance == 13 else st.sampled_from(values))


_oauth = st.fixed_dictionaries(
    {"leg": mostly(_KINDS)},
    optional={
        "client_id": mostly(["hmac:1", "hmac:2", URL_ID]),
        "grant_type": mostly(_GRANTS),
        "error": mostly(["invalid_grant", "authorization_pending", ""]),
        "has_code": mostly([True]),
        "as_server": mostly([HOST, "https://login.example"]),
    },
)
_exchanges = st.tuples(
    st.none() | _oauth | _oauth | _oauth,
    st.sampled_from([CLIENT, CLIENT, BROWSER, (CLIENT[0], ""), ("", "")]),
    st.just("") | st.integers(0, 99).map(str),
    st.sampled_from([200, 200, 302, 401, None]),
    st.sampled_from([*[0] * 12, 1, -5, 120, 31 * 60, 10**6]),
)


@examples(60)
@given(st.lists(_exchanges, min_size=15, max_size=40), st.sampled_from([3, MAX_LOGINS]))
def test_no_legs_raise_and_no_login_is_left(exchanges: list[Any], limit: int) -> None:
    traffic = Traffic()
    logins = traffic.fold.logins
    logins._logins.limit = limit
    for oauth, client, token, status, pause in exchanges:
        traffic.pause(pause)
        if oauth is None:
            traffic.message(client, token, status or 0)
        else:
            traffic.end(traffic.begin("/x", client, token), status, {"WWW-Authenticate": "Bearer"}, oauth=oauth)
        assert all(not login.is_over for login in logins._open_logins)
    for login in traffic.ended():
        assert login.is_over
        assert login.outcome
    assert remembered_count(logins) == 0


def _many_legs_of_one(count: int) -> None:
    traffic = Traffic()
    for number in range(count):
        traffic.leg("token", 400, client=(f"client {number}", "x"), client_id="hmac:1", error="invalid_grant")
        traffic.pause(-1)
    login = traffic.only()
    assert (login.count, len(login.legs)) == (count, MAX_LEGS)
    assert max(len(login.clients), len(login.client_ids)) <= MAX_LEGS


def _many_logins(count: int) -> None:
    traffic = Traffic()
    for number in range(count):
        traffic.leg("registration", 201, client_id=f"hmac:{number}")
        traffic.authorize((f"client {number}", "x"), client_id="other")
        traffic.message(token=f"token {number}")
        traffic.pause(-3)
    logins = traffic.fold.logins
    assert len(logins._by_address) <= MAX_LOGINS * 2
    assert len(logins._by_client_id) <= MAX_LOGINS * 2
    logins.finish(0)
    assert remembered_count(logins) == 0


@pytest.mark.parametrize("run", [_many_legs_of_one, _many_logins])
def test_hostile_traffic_takes_linear_time(run: Any) -> None:
    assert_linear(run, 400, 1_600)


def test_everything_that_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CREDENTIALS", 10)
    traffic = Traffic()
    for number in range(50):
        traffic.message(token=f"token {number}")
    assert len(traffic.fold.logins._accepted_credentials) == 10
