"""What is kept of a leg of an authorization: named facts, and no secret that crosses in the same exchange."""

import time
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import dumps

from captures.addresses import clean_address
from mcpproxy.recorder.oauth_exchange import MAX_SECRET_CHARS, OauthExchange
from mcpproxy.recorder.oauth_legs import Leg
from mcpproxy.recorder.oauth_members import challenge_member, without_secret_members
from mcpproxy.recorder.oauth_parameters import MAX_CONTENT_BYTES, MAX_PARAMETERS
from mcpproxy.recorder.response_text import TextCleaner
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead

FORM = b"application/x-www-form-urlencoded"
JSON = b"application/json"


def hashed(secret: bytes) -> str:
    return f"hmac:<{secret.decode('utf-8', 'replace')}>"


def secretly_hashed(_secret: bytes) -> str:
    return "hmac:#"


def clean(address: bytes) -> str:
    return clean_address(address, secretly_hashed)


def head(method: bytes, target: bytes, *fields: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead(method, target, b"HTTP/1.1", Fields(fields), None, b"")


def answer(status: int, *fields: tuple[bytes, bytes]) -> ResponseHead:
    return ResponseHead(status, b"", b"HTTP/1.1", Fields(fields), False)


def member(
    request: RequestHead,
    sent: bytes = b"",
    received: bytes = b"",
    *,
    media: bytes = FORM,
    response: ResponseHead | None = None,
    announced: Leg | None = None,
) -> dict[str, Any] | None:
    exchange = OauthExchange(request, announced)
    if sent:
        exchange.read_request(sent, media)
    exchange.read_response_head(response or answer(200))
    exchange.read_response(received)
    return exchange.member(secretly_hashed, clean)


BASIC = (b"Authorization", b"Basic " + b64encode(b"my%2Did:s3cret"))
TOKEN = (
    b"grant_type=authorization_code&code=SplxlOBeZQ&code_verifier=ver1f1er&client_id=my-id"
    b"&resource=https%3A%2F%2Fh%2Fmcp"
)
REDIRECTED = b"https://client.example/cb?code=SplxlOBeZQ&state=af0ifjsldkj&iss=https%3A%2F%2Fh.example"


def test_metadata_names_resource_and_server() -> None:
    asked = head(b"GET", b"/.well-known/oauth-protected-resource/mcp")
    told = dumps(
        {"resource": "https://h/mcp", "authorization_servers": ["https://h/secret", "https://b"], "error": "x"}
    )
    assert member(asked, received=told) == {
        "leg": "resource-metadata",
        "resource": "https://h/mcp",
        "as_server": "https://h/hmac:#",
    }
    asked = head(b"GET", b"/.well-known/oauth-authorization-server")
    assert member(asked, received=b'{"issuer":"https://h"}') == {"leg": "server-metadata", "iss": "https://h"}
    missing = answer(404)
    assert member(asked, received=b'{"issuer":"https://h"}', response=missing) == {"leg": "server-metadata"}


def test_a_registration_names_what_was_asked_for_and_the_client_as_a_tag() -> None:
    sent = {
        "client_name": "A client",
        "redirect_uris": ["http://127.0.0.1:4711/callback?x=y", "https://b"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": "mcp:tools openid",
        "contacts": ["someone@a.example"],
        "token_endpoint_auth_method": "none",
    }
    received = sent | {
        "client_id": "my-id",
        "client_secret": "s3cret-0123",
        "registration_access_token": "reg-23410913-abewfq.123483",
        "registration_client_uri": "https://h/register/my-id",
        "scope": "mcp:tools",
    }
    assert member(head(b"POST", b"/register"), dumps(sent), dumps(received), media=JSON, response=answer(201)) == {
        "leg": "registration",
        "grant_type": "authorization_code refresh_token",
        "response_type": "code",
        "scope": "mcp:tools",
        "client_id": "hmac:#",
        "redirect_uri": "http://127.0.0.1:4711",
    }


def test_a_request_for_a_code_names_what_the_redirect_says() -> None:
    target = (
        b"/authorize?response_type=code&client_id=https%3A%2F%2Fclient.example%2Foauth%2Fmeta&state=af0ifjsldkj"
        b"&redirect_uri=https%3A%2F%2Fclient.example%2Fcb%3Fx%3Dy&scope=mcp:tools&code_challenge=E9Mel&"
        b"code_challenge_method=S256&resource=https%3A%2F%2Fh%2Fmcp&resource=https%3A%2F%2Fb"
    )
    granted = answer(302, (b"Location", REDIRECTED))
    expected = {
        "leg": "authorize",
        "response_type": "code",
        "scope": "mcp:tools",
        "code_challenge_method": "S256",
        "resource": "https://h/mcp",
        "iss": "https://h.example",
        "client_id": "https://client.example/oauth/hmac:#",
        "redirect_uri": "https://client.example",
        "has_code": True,
    }
    assert member(head(b"GET", target), response=granted) == expected
    asked = target.partition(b"?")[2]
    assert member(head(b"POST", b"/authorize"), asked, response=granted) == expected

    location = b"https://client.example/cb?error=access_denied&error_description=af0ifjsldkj+said+no&state=af0ifjsldkj"
    refused = member(head(b"GET", target), response=answer(303, (b"Location", location)))
    assert refused is not None
    assert refused["error"] == "access_denied"
    assert refused["error_description"] == "hmac:# said no"
    assert "has_code" not in refused


def test_a_code_in_a_fragment_is_one_too() -> None:
    asked = head(b"GET", b"/authorize?response_type=code&state=x")
    assert member(asked, response=answer(302, (b"Location", b"app://cb#code=SplxlOBeZQ&state=x"))) == {
        "leg": "authorize",
        "response_type": "code",
        "redirect_uri": "app://hmac:#",
        "has_code": True,
    }


def test_a_page_of_a_login_that_sends_the_browser_back_belongs_to_it() -> None:
    sent = b"username=someone&password=correct+horse"
    assert member(head(b"POST", b"/login"), sent, response=answer(302, (b"Location", REDIRECTED))) == {
        "leg": "authorize",
        "iss": "https://h.example",
        "redirect_uri": "https://client.example",
        "has_code": True,
    }
    assert member(head(b"POST", b"/login"), sent, response=answer(302, (b"Location", b"/home?state=x"))) is None
    assert member(head(b"POST", b"/login"), sent, response=answer(200)) is None


def test_a_callback_says_whether_a_code_came() -> None:
    assert member(head(b"GET", b"/auth/callback?code=SplxlOBeZQ&state=x"), response=answer(400)) == {
        "leg": "callback",
        "has_code": True,
    }
    assert member(head(b"GET", b"/auth/callback?error=server_error&state=x")) == {
        "leg": "callback",
        "error": "server_error",
    }


@pytest.mark.parametrize("fields", [(), (BASIC,)], ids=["form", "basic"])
def test_a_request_for_a_token_names_what_was_granted(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    sent = TOKEN.replace(b"&client_id=my-id", b"") if fields else TOKEN
    received = {"access_token": "SlAV32hkKG", "token_type": "DPoP", "expires_in": 3600, "scope": "mcp:tools"}
    assert member(head(b"POST", b"/token", *fields), sent, dumps(received)) == {
        "leg": "token",
        "grant_type": "authorization_code",
        "scope": "mcp:tools",
        "token_type": "DPoP",
        "resource": "https://h/mcp",
        "client_id": "hmac:#",
        "expires_in": 3600,
    }


def test_the_tag_of_a_client_is_the_same_wherever_it_is_named() -> None:
    tags = set()
    for request, sent in (
        (head(b"POST", b"/token", BASIC), b"grant_type=refresh_token"),
        (head(b"POST", b"/token"), b"grant_type=refresh_token&client_id=my%2Did"),
        (head(b"GET", b"/authorize?response_type=code&client_id=my-id"), b""),
    ):
        exchange = OauthExchange(request, None)
        if sent:
            exchange.read_request(sent, FORM)
        made = exchange.member(hashed, clean)
        assert made is not None
        tags.add(made["client_id"])
    assert tags == {"hmac:<my-id>"}


def test_an_error_loses_what_the_request_carried() -> None:
    told = {
        "error": "invalid_grant",
        "error_description": "no code SplxlOBeZQ for client mine with ver1f1er",
        "error_uri": "https://h/SplxlOBeZQ",
        "access_token": "SlAV32hkKG",
    }
    assert member(head(b"POST", b"/token"), TOKEN, dumps(told), response=answer(400)) == {
        "leg": "token",
        "grant_type": "authorization_code",
        "error": "invalid_grant",
        "error_description": "no code hmac:# for client mine with hmac:#",
        "error_uri": "https://h/hmac:#",
        "resource": "https://h/mcp",
        "client_id": "hmac:#",
    }


def test_secrets_that_are_words_are_found_too() -> None:
    told = b'{"error":"access_denied","error_description":"anna: horse is not the password of anna"}'
    for sent, media in (
        (b"username=anna&password=horse&grant_type=password", FORM),
        (b'{"grant_type":"password","login":{"username":"anna","password":"horse"}}', JSON),
    ):
        said = member(head(b"POST", b"/token"), sent, told, media=media, response=answer(401))
        assert said is not None
        assert said["error_description"] == "hmac:#: hmac:# is not the password of hmac:#"


@pytest.mark.parametrize(
    ("sent", "media"),
    [
        (b'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\nhorse\r\n', b"multipart/form-data"),
        (b"horse", b"text/plain"),
        (b"a=b&" * (MAX_PARAMETERS + 1), FORM),
        (dumps({"x": ["horse"] * (MAX_PARAMETERS + 1)}), JSON),
        (b"password=" + b"x" * MAX_CONTENT_BYTES, FORM),
        ("password=horse".encode("utf-16"), FORM),
        ("password=horse".encode("utf-32-le"), FORM),
        (b"a=b;password=horse", FORM),
        (b"password=%ffhorse", FORM),
        (b'{"password":"horse","x":' + b"[" * 60 + b"]" * 60 + b"}", JSON),
        (b"grant_type=password&password=" + b"x" * (MAX_SECRET_CHARS + 1), FORM),
    ],
)
def test_without_all_secrets_no_text_is_kept(sent: bytes, media: bytes) -> None:
    told = b'{"error":"access_denied","error_description":"horse"}'
    said = member(head(b"POST", b"/t"), sent, told, media=media, response=answer(401), announced="token")
    assert said == {"leg": "token"} | ({"grant_type": "password"} if b"grant_type" in sent else {})


@pytest.mark.parametrize(
    ("sent", "media", "said"),
    [
        (b'{"grant_type":"otp","otp":482913}', JSON, "code 482913"),
        (b'{"grant_type":"x","password":"horses","password":"other"}', JSON, "not horses"),
        (b'{"grant_type":"x","horses":true}', JSON, "not horses"),
        (b'{"grant_type":"x","a":{"horses":{"b":null}}}', JSON, "not horses"),
        (b"grant_type=x&horses=1", FORM, "not horses"),
        (b"grant_type=x", FORM, "not cookies"),
        (b"grant_type=x", FORM, "not issuedvalue"),
        (b"grant_type=x", FORM, "not digestuser"),
        (b"grant_type=x", FORM, "not awskeyid"),
        (b"grant_type=x", FORM, "not malformed"),
        (b"grant_type=x", FORM, "pin 593821"),
    ],
)
def test_an_error_repeats_no_value_name_or_header(sent: bytes, media: bytes, said: str) -> None:
    request = head(
        b"POST",
        b"/token",
        (b"Authorization", b'Digest username="digestuser", realm="r", response="0123"'),
        (b"Authorization", b"AWS4-HMAC-SHA256 Credential=awskeyid/x, Signature=0123"),
        (b"Authorization", b"Basic malformed:x"),
    )
    response = answer(400, (b"Set-Cookie", b"sid=cookies; Path=/"), (b"X-Issued", b"issuedvalue"))
    told = dumps({"error": "invalid_grant", "error_description": f"{said} is over", "pin": 593821})
    made = member(request, sent, told, media=media, response=response)
    assert made is not None
    assert made["error_description"] == said.split()[0] + " hmac:# is over"


@pytest.mark.parametrize("name", ["password", "client_id", "redirect_uri", "scope"])
def test_names_of_parameters_stay_in_errors(name: str) -> None:
    sent = dumps({"grant_type": "password", name: None})
    told = dumps({"error": "invalid_request", "error_description": f"{name} is missing"})
    made = member(head(b"POST", b"/token"), sent, told, media=JSON, response=answer(400))
    assert made is not None
    assert made["error_description"] == f"{name} is missing"


@pytest.mark.parametrize(
    "spelled",
    ["yrettabesroh", "h o r s e battery", "horse\u200bbattery", "ｈｏｒｓｅbattery", "HORSE-Battery", "horse\nbattery"],
)
def test_a_text_that_hints_at_a_value_is_not_kept(spelled: str) -> None:
    told = dumps({"error": "invalid_grant", "error_description": f"not {spelled}, is it?"})
    sent = b"grant_type=password&password=horsebattery"
    made = member(head(b"POST", b"/token"), sent, told, response=answer(400))
    assert made == {"leg": "token", "grant_type": "password", "error": "invalid_grant"}


def test_texts_are_searched_in_bounded_time() -> None:
    sent = urlencode({f"n{number}": f"{number:0100}" for number in range(MAX_PARAMETERS // 3)}).encode()
    told = dumps({"error": "x", "error_description": "x " * 30_000})
    exchange = OauthExchange(head(b"POST", b"/token"), "token")
    exchange.read_request(sent, FORM)
    exchange.read_response_head(answer(400))
    exchange.read_response(told)
    began_s = time.process_time()
    assert exchange.member(secretly_hashed, clean) is not None
    assert time.process_time() - began_s < 0.5


def test_a_body_that_is_incomplete_says_nothing() -> None:
    exchange = OauthExchange(head(b"POST", b"/token"), "token")
    exchange.read_request(None, FORM)
    exchange.read_response_head(answer(400))
    exchange.read_response(b'{"error":"invalid_grant"}')
    assert exchange.member(secretly_hashed, clean) == {"leg": "token"}


@pytest.mark.parametrize(
    ("sent", "target", "expected"),
    [
        (b"token=SlAV32hkKG&client_id=my-id", b"/revoke", {"leg": "revocation", "client_id": "hmac:#"}),
        (
            b"token=SlAV32hkKG",
            b"/introspect",
            {"leg": "introspection", "scope": "a b", "token_type": "Bearer", "iss": "https://h"},
        ),
        (
            b"client_id=my-id&scope=a",
            b"/device_authorization",
            {"leg": "device", "scope": "a", "client_id": "hmac:#", "expires_in": 600},
        ),
    ],
)
def test_of_the_other_legs_as_much_is_kept(sent: bytes, target: bytes, expected: dict[str, Any]) -> None:
    received = {
        "active": True,
        "username": "someone",
        "sub": "someone",
        "scope": "a b",
        "token_type": "Bearer",
        "iss": "https://h",
        "device_code": "GmRhmhcxhwAzkoEqiMEg",
        "user_code": "WDJB-MJHT",
        "expires_in": 600,
    }
    assert member(head(b"POST", target), sent, dumps(received)) == expected


def test_an_error_elsewhere_has_no_leg() -> None:
    told = b'{"error":"not_found","error_description":"it is not there","error_uri":7}'
    asked = head(b"GET", b"/somewhere")
    assert member(asked, received=told, response=answer(404)) == {
        "error": "not_found",
        "error_description": "it is not there",
    }
    assert member(asked, received=told) is None
    assert member(asked, received=b'{"error":{"code":1}}', response=answer(404)) is None


@pytest.mark.parametrize("method", [b"OPTIONS", b"HEAD", b"DELETE"])
def test_other_methods_are_no_leg_but_as_private(method: bytes) -> None:
    exchange = OauthExchange(head(method, b"/t"), "token")
    assert exchange.member(secretly_hashed, clean) is None
    assert exchange.is_private(is_request_open=False)


def test_bodies_are_private_until_the_content_of_a_usual_path_proves_nothing() -> None:
    exchange = OauthExchange(head(b"POST", b"/register"), None)
    assert exchange.is_private(is_request_open=True)
    exchange.read_request(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', JSON)
    assert not exchange.is_private(is_request_open=False)
    exchange = OauthExchange(head(b"POST", b"/token"), None)
    exchange.read_request(b'{"jsonrpc":"2.0","id":1,"method":"ping","grant_type":"password"}', JSON)
    assert exchange.is_private(is_request_open=False)
    assert not OauthExchange(head(b"GET", b"/health"), None).is_private(is_request_open=True)
    assert not OauthExchange(head(b"GET", b"/.well-known/openid-configuration"), None).is_private(is_request_open=True)


def test_a_challenge_says_what_is_asked_for() -> None:
    request = head(b"POST", b"/mcp", (b"Authorization", b"Bearer tok-1234"))
    challenge = (
        b'Basic realm="a", DPoP error="insufficient_scope", scope="a b", nonce="n0nce", '
        b'error_description="tok-1234 lacks \\"b\\"", error_uri="https://h/x"'
    )
    cleaner = TextCleaner(request.target, request.headers, Fields(), secretly_hashed, clean)
    refused = answer(403, (b"WWW-Authenticate", challenge))
    assert challenge_member(refused, cleaner, secretly_hashed, clean) == {
        "leg": "challenge",
        "error": "insufficient_scope",
        "error_description": 'hmac:# lacks "b"',
        "scope": "a b",
        "error_uri": "https://h/hmac:#",
    }
    assert challenge_member(refused, None, secretly_hashed, clean) == {"leg": "challenge"}
    assert challenge_member(answer(401), cleaner, secretly_hashed, clean) == {"leg": "challenge"}
    assert challenge_member(answer(404), cleaner, secretly_hashed, clean) is None


def test_a_document_loses_what_only_one_client_may_know() -> None:
    document = {"token_endpoint": "/t", "x": [{"client_secret": "s3cret", "code": 7}], "scopes_supported": ["code"]}
    assert without_secret_members(document, secretly_hashed) == document | {
        "x": [{"client_secret": "hmac:#", "code": 7}]
    }


@pytest.mark.parametrize(
    "name", ["api_key", "APIKEY", "private_key", "Secret", "passwd", "password", "jwt", "credentials"]
)
@pytest.mark.parametrize("value", ["s3cret", ["s3cret"], {"a": "s3cret"}, 1234567])
def test_a_document_loses_values_of_any_type(name: str, value: Any) -> None:
    assert without_secret_members({"issuer": "i", "x": [{name: value}]}, secretly_hashed) == {
        "issuer": "i",
        "x": [{name: "hmac:#"}],
    }


def test_keys_lose_what_is_private() -> None:
    document = {
        "d": "public",
        "keys": [{"kty": "RSA", "n": "n", "e": "AQAB", "d": "s3cret", "p": "s3cret", "k": "s3cret"}],
    }
    assert without_secret_members(document, secretly_hashed) == {
        "d": "public",
        "keys": [{"kty": "RSA", "n": "n", "e": "AQAB", "d": "hmac:#", "p": "hmac:#", "k": "hmac:#"}],
    }


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://localhost:3000/x?y#z", "http://localhost:3000"),
        ("http://[::1]:3000/x", "http://[::1]:3000"),
        ("https://u:p@a.example:8443/x", "https://a.example"),
        ("cursor://anysphere.cursor/x", "cursor://hmac:#"),
        ("com.example.app:/x", "com.example.app://"),
        ("no scheme", None),
        ("https://a.example:x/", None),
    ],
)
def test_of_a_redirect_uri_only_scheme_and_host_are_kept(address: str, kept: str | None) -> None:
    sent = dumps({"grant_type": "authorization_code", "redirect_uri": address})
    made = member(head(b"POST", b"/token"), sent, media=JSON)
    assert made is not None
    assert made.get("redirect_uri") == kept


SECRET = "zq7Kx9vWp2"
texts = st.text(max_size=40)


@given(
    st.dictionaries(
        st.sampled_from(["grant_type", "code", "client_secret", "redirect_uri", "state", "x", "password"]),
        st.one_of(texts, st.just(SECRET), texts.map(lambda text: text + SECRET)),
    ),
    st.recursive(
        texts | st.just(SECRET) | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
    ),
    st.sampled_from([200, 302, 400, 401]),
    st.binary(max_size=60),
)
def test_nothing_raises_or_shows_a_secret(
    parameters: dict[str, str], received: Any, status: int, location: bytes
) -> None:
    sent = dumps(parameters | {"code": SECRET})
    told = dumps({"error": f"x {SECRET}", "error_description": SECRET, "y": received})
    response = answer(status, (b"Location", location + b"?code=" + SECRET.encode() + b"&state=" + location))
    said = member(head(b"POST", b"/token"), sent, told, media=JSON, response=response, announced="token")
    assert SECRET not in str(said)
