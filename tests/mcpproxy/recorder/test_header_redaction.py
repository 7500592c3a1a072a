"""Which parts of an HTTP head are kept, and that nothing else is."""

import hashlib
import time
from json import loads
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.addresses import clean_address
from mcpproxy.recorder.header_redaction import FieldRedactor, challenge_parameters, clean_document
from mcpproxy.wire.framing import Fields

SECRET = b"s3cr3t-0123456789"


def hashed(secret: bytes) -> str:
    return "hmac:" + hashlib.sha256(secret).hexdigest()[:16]


def clean(address: bytes) -> str:
    return clean_address(address, hashed)


def redactor() -> FieldRedactor:
    return FieldRedactor(hashed, clean)


@pytest.mark.parametrize(
    "name",
    [
        *(
            b"Authorization",
            b"Proxy-Authorization",
            b"Cookie",
            b"Set-Cookie",
            b"Mcp-Session-Id",
            b"X-Api-Key",
            b"api-key",
        ),
        *(b"X-Anything", b"Last-Event-ID", b"DPoP", b"Forwarded", b"X-Forwarded-For", b"Link", b"ETag", b"From"),
    ],
)
def test_a_value_that_may_be_secret_is_hashed_and_its_name_kept(name: bytes) -> None:
    ((kept, value),) = loads(redactor()([(name, SECRET)]))
    assert (kept, value) == (name.decode(), hashed(SECRET))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"Accept", b"application/json, text/event-stream"),
        (b"MCP-Protocol-Version", b"2025-11-25"),
        (b"Mcp-Name", b"add"),
        (b"Mcp-Param-City", b"Paris"),
        (b"Origin", b"http://localhost:6274"),
        (b"WWW-Authenticate", b'Bearer resource_metadata="https://a/.well-known/oauth-protected-resource/mcp"'),
        (b"Access-Control-Allow-Origin", b"*"),
    ],
)
def test_what_tells_of_the_protocol_is_kept(name: bytes, value: bytes) -> None:
    assert loads(redactor()([(name, value)])) == [[name.decode(), value.decode()]]


HOST = (b"Host", b"mcp.example.org:8443")
SAID = b'for=192.0.2.60;proto=https;host="Public.example";by="[2001:db8::1]:4711", for=unknown;host=%b' % SECRET


def forwarded(name: bytes, value: bytes, *others: tuple[bytes, bytes]) -> str:
    lines = loads(FieldRedactor(hashed, clean, "public.example")([*others, (name, value)]))
    return str(lines[-1][1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"X-Forwarded-Proto", b"https"),
        (b"x-forwarded-proto", b"HTTP"),
        (b"X-Forwarded-Port", b"8443"),
        (b"X-Forwarded-Host", b"MCP.example.org:8443"),
        (b"X-Forwarded-Host", b"public.example"),
        (b"Forwarded", b"proto=https;host=public.example"),
        (b"Forwarded", b'proto=http; host="mcp.example.org:8443"'),
    ],
)
def test_what_a_proxy_says_of_the_public_address_is_kept(name: bytes, value: bytes) -> None:
    assert forwarded(name, value, HOST) == value.decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"X-Forwarded-Proto", SECRET),
        (b"X-Forwarded-Proto", b"https,http"),
        (b"X-Forwarded-Port", b"471147"),
        (b"X-Forwarded-Port", b"8443x"),
        (b"X-Forwarded-Host", SECRET),
        (b"X-Forwarded-Host", b"public.example, " + SECRET),
        (b"Forwarded", SECRET),
        (b"Forwarded", b"proto=https;" + SECRET),
        (b"Forwarded", b'proto="https'),
    ],
)
def test_whatever_else_a_proxy_says_is_hashed(name: bytes, value: bytes) -> None:
    assert forwarded(name, value, HOST) == hashed(value)


def test_of_forwarded_only_scheme_and_own_host_are_kept() -> None:
    shown = (hashed(secret) for secret in (b"192.0.2.60", b"[2001:db8::1]:4711", b"unknown", SECRET))
    expected = 'for="%s";proto=https;host="Public.example";by="%s", for="%s";host="%s"'
    assert forwarded(b"Forwarded", SAID) == expected % tuple(shown)


def test_the_host_of_one_request_is_not_kept_in_another() -> None:
    redact = redactor()
    said = (b"X-Forwarded-Host", SECRET)
    assert SECRET in redact([(b"Host", SECRET), said])
    assert SECRET not in redact([HOST, said])


def test_a_hostile_forwarded_takes_linear_time() -> None:
    began = time.process_time()
    for value in (b"a=" * 60_000, b"a=b;" * 30_000 + b'"', b" " * 120_000, b'a="' * 1_000, b"for=1," * 600):
        forwarded(b"Forwarded", value, HOST)
    assert time.process_time() - began < 1


def trace_field(name: bytes, value: bytes) -> str:
    ((_, kept),) = loads(redactor()([(name, value)]))
    return str(kept)


TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACESTATES = [
    b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    b"rojo=1 , ,\tcongo=a b:c/d",
    b"",
    b"1a@b=x",
    b"a*/_-0=" + b"~" * 256,
    b",".join(b"k%d=v" % number for number in range(32)),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"TraceParent", TRACEPARENT),
        (b"traceparent", b"cc" + TRACEPARENT[2:]),
        *((b"tracestate", value) for value in TRACESTATES),
    ],
)
def test_a_trace_context_is_kept(name: bytes, value: bytes) -> None:
    assert trace_field(name, value) == value.decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"traceparent", SECRET),
        (b"traceparent", TRACEPARENT + b"-" + SECRET),
        (b"traceparent", b"cc" + TRACEPARENT[2:] + b"-" + SECRET),
        (b"traceparent", TRACEPARENT.upper()),
        (b"traceparent", b"ff" + TRACEPARENT[2:]),
        (b"traceparent", b"00-" + b"0" * 32 + TRACEPARENT[35:]),
        (b"traceparent", TRACEPARENT[:36] + b"0" * 16 + b"-01"),
        (b"traceparent", TRACEPARENT + b"\n"),
        (b"tracestate", SECRET),
        (b"tracestate", b"rojo=1," + SECRET),
        (b"tracestate", b"Rojo=" + SECRET),
        (b"tracestate", b"rojo=" + SECRET + b"=="),
        (b"tracestate", b"rojo=" + SECRET + "é".encode()),
        (b"tracestate", b"rojo=1,rojo=" + SECRET),
        (b"tracestate", b"rojo=https://u:p@h/" + SECRET),
        (b"tracestate", b"rojo=" + SECRET + b"\x00"),
        (b"tracestate", b"rojo=" + b"x" * 257),
        (b"tracestate", b"rojo=" + b"x" * 250 + b",congo=" + b"x" * 251),
        (b"tracestate", b",".join(b"k%d=v" % number for number in range(33))),
        (b"baggage", SECRET),
        (b"baggage", b"a=1;" + b"x" * 8192),
        (b"baggage", b",".join([b"a=1"] * 65)),
        (b"baggage", b"cGFzc3dvcmQ="),
        (b"baggage", b"c2VjcmV0=" + SECRET),
    ],
)
def test_a_trace_context_of_another_form_may_hold_anything(name: bytes, value: bytes) -> None:
    assert trace_field(name, value) == hashed(value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"userId=%b", "userId=%s"),
        (b"userId = %b , serverNode=%b", "userId=%s,serverNode=%s"),
        (b"user_id=%b;secret=1; x", "user_id=%s;" + hashed(b"secret=1; x")),
        (b"a=,b=%b,,%b", "a=,b=%s,,%s"),
        (b"a=%b;", "a=%s;"),
    ],
)
def test_of_baggage_the_names_are_kept(value: bytes, kept: str) -> None:
    assert trace_field(b"Baggage", value.replace(b"%b", SECRET)) == kept.replace("%s", hashed(SECRET))


@given(st.sampled_from([b"traceparent", b"tracestate", b"baggage"]), st.binary(max_size=60), st.binary(max_size=60))
def test_no_trace_context_shows_a_value_that_is_not_its_form(name: bytes, before: bytes, after: bytes) -> None:
    assert SECRET.decode() not in trace_field(name, before + b"=" + SECRET + b"\x7f" + after)


def test_a_hostile_trace_context_takes_linear_time() -> None:
    began = time.process_time()
    for value in (b"a=" * 60_000, b"," * 120_000, b"a=b;" * 30_000, b"a" * 120_000, b" " * 120_000):
        for name in (b"traceparent", b"tracestate", b"baggage"):
            trace_field(name, value)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", [b"Authorization", b"proxy-authorization"])
@pytest.mark.parametrize("scheme", [b"Bearer ", b"basic ", b"DPoP ", b"Digest ", b"Negotiate "])
def test_of_a_credential_the_scheme_is_kept(name: bytes, scheme: bytes) -> None:
    ((_, value),) = loads(redactor()([(name, scheme + SECRET)]))
    assert value == scheme.decode() + hashed(SECRET)


@pytest.mark.parametrize("value", [SECRET, b"Bearer", b"Bearer ", b"Bearer" + SECRET, b"Token " + SECRET, b" Bearer x"])
def test_of_a_credential_without_a_known_scheme_nothing_is_kept(value: bytes) -> None:
    ((_, kept),) = loads(redactor()([(b"Authorization", value)]))
    assert kept == hashed(value)


def test_a_challenge_that_goes_back_and_forth_is_no_challenge() -> None:
    made = redactor()([(b"WWW-Authenticate", b"Negotiate " + SECRET)])
    assert loads(made) == [["WWW-Authenticate", hashed(b"Negotiate " + SECRET)]]


@pytest.mark.parametrize(
    "value",
    [
        b'Bearer realm="x", Negotiate ' + SECRET,
        b"Bearer " + SECRET + b"==",
        b'Basic realm="a", Bearer ' + SECRET + b" x",
    ],
)
def test_a_list_of_challenges_may_hold_an_answer(value: bytes) -> None:
    assert loads(redactor()([(b"WWW-Authenticate", value)])) == [["WWW-Authenticate", hashed(value)]]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (
            b'Bearer realm="mcp", error="invalid_token", error_description="%b", scope="a b"',
            'Bearer realm="mcp", error="invalid_token", error_description="%s", scope="a b"',
        ),
        (b'DPoP algs="ES256 PS256", nonce="%b"', 'DPoP algs="ES256 PS256", nonce="%s"'),
        (
            b'Digest realm="mcp",nonce = %b, opaque="%b", stale=true, opaque=""',
            'Digest realm="mcp",nonce = "%s", opaque="%s", stale=true, opaque=""',
        ),
    ],
)
def test_of_a_challenge_only_parameters_that_hold_no_secret_are_kept(value: bytes, kept: str) -> None:
    ((_, shown),) = loads(redactor()([(b"WWW-Authenticate", value.replace(b"%b", SECRET))]))
    assert shown == kept.replace("%s", hashed(SECRET))


def test_the_parameters_of_several_challenges_are_read() -> None:
    value = b'Basic Realm="a", Bearer error = "in\\"v", scope=b , x="unfinished'
    assert list(challenge_parameters(value)) == [("realm", "a"), ("error", 'in"v'), ("scope", "b")]
    began = time.process_time()
    for hostile in (b"a" * 100_000, b'a="' * 50_000, b"a =" * 50_000, b'a="' + b"\\" * 100_000, b"a " * 50_000):
        list(challenge_parameters(hostile))
    assert time.process_time() - began < 10


@given(st.lists(st.tuples(st.sampled_from([b"A", b"Host", b"Cookie"]), st.binary(max_size=600)), max_size=20))
def test_what_is_remembered_says_the_same(fields: list[tuple[bytes, bytes]]) -> None:
    remembering = redactor()
    assert remembering(fields) == remembering(fields) == redactor()(fields)


@pytest.mark.parametrize(
    "value",
    [
        "https://h/s/%s/mcp",
        "http:\\/\\/h\\/%s",
        "http\\u003a\\u002f\\u002fh\\u002f%s",
        "/%s",
        "//h/%s",
        "/x?%s",
        "?%s",
        "ws://h/%s",
        "custom://%s/",
        "http://h/,%s",
        "http://h/a b/%s",
        "http%%3A%%2F%%2Fh%%2F%s",
        "http://h:%s/",
        "http://[%s]/",
        "http://h%%2f%s/",
    ],
)
def test_urls_in_a_document_are_cleaned(value: str) -> None:
    document = loads(
        '{"resource":"%s","x":[{"y":"%s"}],"scopes_supported":["mcp:tools"]}' % ((value % SECRET.decode(),) * 2)
    )
    shown = clean_document(document, clean)
    assert SECRET.decode() not in str(shown)
    assert shown["scopes_supported"] == ["mcp:tools"]


def test_a_document_may_be_of_any_depth() -> None:
    document: Any = "http://h/" + SECRET.decode()
    for _ in range(900):
        document = [document]
    assert SECRET.decode() not in str(clean_document(document, clean))


@pytest.mark.parametrize("value", [b"/%b", b"//h/%b", b"?%b", b"custom://h/%b", b"http://h/x y/%b", b"https://h/%b"])
def test_urls_in_a_challenge_are_cleaned(value: bytes) -> None:
    field = (b"WWW-Authenticate", b'Bearer realm="mcp", resource_metadata="%b"' % (value % SECRET))
    shown = redactor()([field])
    assert SECRET not in shown
    assert b"mcp" in shown


@pytest.mark.parametrize("name", [b"User-Agent", b"Server", b"Via", b"Accept", b"Access-Control-Allow-Origin"])
def test_urls_in_headers_that_are_kept_are_cleaned(name: bytes) -> None:
    shown = redactor()([(name, b"x/1.0 (+https://u:%b@h/%b)" % (SECRET, SECRET))])
    assert SECRET not in shown
    assert b"x/1.0 (+https://" in shown


@given(st.binary())
def test_no_target_raises_or_shows_a_query_value(target: bytes) -> None:
    shown = clean_address(b"/p?k=" + target.replace(b"&", b"").replace(b"#", b"") + SECRET, hashed)
    assert SECRET.decode() not in shown


def test_the_media_type_is_without_parameters_and_in_lower_case() -> None:
    assert Fields([(b"Content-Type", b"Text/Event-Stream ; charset=utf-8")]).media_type == b"text/event-stream"
    assert Fields([(b"X", b"y")]).media_type == b""
