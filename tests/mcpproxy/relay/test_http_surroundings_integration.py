"""The attacks of `test_http_abuse_integration` and the floods once more: over TLS to the upstream, and with uvloop."""

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import http_harness
from tests.harness import DEADLINE_S, Place
from tests.http_harness import Authority, TrafficSetup, Upstream, Wire, serving
from tests.mcpproxy.relay import test_http_abuse_integration, test_http_fairness_integration

Attack = Callable[[Place], None]


def attacks(*modules: object) -> Iterator[Attack]:
    """Yields the tests of these modules that need only the fixture `place`."""
    for module in modules:
        for name, test in vars(module).items():
            if name.startswith("test_") and list(inspect.signature(test).parameters) == ["place"]:
                marks = {mark.name for mark in getattr(test, "pytestmark", [])}
                if "soak" not in marks:
                    yield test


def name_of(attack: Attack) -> str:
    return attack.__name__.removeprefix("test_")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    try:
        return Authority(tmp_path_factory.mktemp("authority"))
    except FileNotFoundError:
        pytest.skip("there is no openssl to make certificates with")


SURROUNDINGS = {"TLS": (True, False), "uvloop": (False, True), "both": (True, True)}


def in_turn() -> Iterator[Any]:
    """Yields each attack in every surrounding: one of them, in rotation, in the suite, and the other two in soak."""
    for number, attack in enumerate(attacks(test_http_abuse_integration, test_http_fairness_integration)):
        for turn, (name, (tls, uvloop)) in enumerate(SURROUNDINGS.items()):
            marks = [pytest.mark.soak] if (number - turn) % len(SURROUNDINGS) else []
            yield pytest.param(attack, tls, uvloop, marks=marks, id=f"{name_of(attack)}-{name}")


@pytest.mark.parametrize(("attack", "tls", "uvloop"), list(in_turn()))
def test_in_other_surroundings(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    attack: Attack,
    *,
    tls: bool,
    uvloop: bool,
) -> None:
    if uvloop:
        pytest.importorskip("uvloop")
    authority = request.getfixturevalue("authority") if tls else None
    monkeypatch.setattr(http_harness, "surroundings", TrafficSetup(authority, uvloop))
    attack(place)


# asyncio and the relay have both closed a TLS connection that its peer has left, and the process ends in the same turn.
ENDS_AT_ONCE = """
import runpy, sys
from mcpproxy.relay.http.listener import HttpRelay
close = HttpRelay.close
async def close_at_once(relay):
    for client in relay.shared.clients:
        client.upstream.close()
        client.upstream.close()
    await close(relay)
HttpRelay.close = close_at_once
sys.modules["uvloop"] = None
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""


def test_a_connection_that_was_closed_already_can_be_ended(
    place: Place, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_harness, "surroundings", TrafficSetup(authority))
    monkeypatch.setattr(http_harness, "_WITHOUT_UVLOOP", ENDS_AT_ONCE)
    asked = threading.Event()

    def script(wire: Wire) -> None:
        wire.head()
        asked.set()
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream, before="pass") as served, served.client() as client:
        client.say(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert asked.wait(DEADLINE_S)
