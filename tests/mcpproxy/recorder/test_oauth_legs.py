"""Which requests are legs of an authorization."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.recorder.oauth_legs import (
    MAX_ANNOUNCED_PATHS,
    AnnouncedLegs,
    Leg,
    announced_paths,
    is_proven,
    metadata_leg,
    path_of,
    usual_leg,
)


@pytest.mark.parametrize(
    ("path", "leg"),
    [
        (b"/.well-known/oauth-protected-resource", "resource-metadata"),
        (b"/.well-known/oauth-protected-resource/tenant/mcp", "resource-metadata"),
        (b"/.well-known/oauth-authorization-server/tenant", "server-metadata"),
        (b"/.well-known/openid-configuration", "server-metadata"),
        (b"/tenant/.well-known/openid-configuration", "server-metadata"),
        (b"/.well-known/oauth-protected-resources", None),
        (b"/.well-known/mcp.json", None),
        (b"/oauth-protected-resource", None),
    ],
)
def test_metadata_is_recognised_by_its_path(path: bytes, leg: Leg | None) -> None:
    assert metadata_leg(path) == leg


@pytest.mark.parametrize(
    ("target", "leg", "parameters"),
    [
        (b"/authorize?response_type=code", "authorize", {"response_type": "code"}),
        (b"/oauth2/authorize", "authorize", {"request_uri": "urn:x", "client_id": "a"}),
        (b"/tenant/oauth/Token/", "token", {"grant_type": "refresh_token"}),
        (b"/register", "registration", {"redirect_uris": []}),
        (b"/oauth/revoke", "revocation", {"token": "x"}),
        (b"/introspect", "introspection", {"token": "x"}),
        (b"/device_authorization", "device", {"client_id": "x"}),
        (b"/auth/callback", "callback", {"state": "x", "code": "y"}),
        (b"/cb", "callback", {"state": "x", "error": "y"}),
        (b"/%74oken", "token", {"grant_type": "password"}),
    ],
)
def test_at_a_usual_path_the_content_proves_a_leg(target: bytes, leg: Leg, parameters: dict[str, Any]) -> None:
    assert usual_leg(path_of(target)) == leg
    assert is_proven(leg, parameters)
    assert not is_proven(leg, {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": parameters})


@pytest.mark.parametrize("path", [b"/", b"/mcp", b"/token/x", b"/messages", b"/tokenise"])
def test_no_other_path_is_usual(path: bytes) -> None:
    assert usual_leg(path) is None


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/token?x=/y", b"/token"),
        (b"/", b"/"),
        (b"*", b"/"),
        (b"https://a.example/x/token/#y", b"/x/token"),
        (b"", b"/"),
    ],
)
def test_a_path_has_one_spelling(target: bytes, path: bytes) -> None:
    assert path_of(target) == path


@given(st.binary(max_size=200))
def test_no_target_raises(target: bytes) -> None:
    path = path_of(target)
    assert path
    metadata_leg(path)
    usual_leg(path)
    AnnouncedLegs(target).leg_of(target)


def test_metadata_announces_the_endpoints_of_its_own_server() -> None:
    document = {
        "authorization_endpoint": "https://own.example/a",
        "token_endpoint": "https://own.example/t/?x=y",
        "revocation_endpoint": "https://other.example/r",
        "introspection_endpoint": 7,
        "registration_endpoint": "https://own.example[/",
        "device_authorization_endpoint": "https://own.example",
        "jwks_uri": "https://own.example/jwks",
    }
    announced = dict(announced_paths(document, lambda address: "own.example" in address))
    assert announced == {b"/a": "authorize", b"/t": "token", b"/": "device"}


def test_the_first_announcement_counts_and_the_endpoint_is_no_leg() -> None:
    legs = AnnouncedLegs(b"/mcp/")
    legs.add(b"/mcp", "token")
    legs.add(b"/t", "token")
    legs.add(b"/t", "authorize")
    assert legs.leg_of(b"/mcp") is None
    assert legs.leg_of(b"/t/?x=y") == "token"
    for number in range(2 * MAX_ANNOUNCED_PATHS):
        legs.add(b"/%d" % number, "token")
    assert legs.leg_of(b"/%d" % (MAX_ANNOUNCED_PATHS - 2)) == "token"
    assert legs.leg_of(b"/%d" % (MAX_ANNOUNCED_PATHS - 1)) is None
