"""Recorded URLs: a secret in any position becomes a hash, and the rest stays readable."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.addresses import clean_address, is_web_address

SECRET = b"s3cr3t-0123456789"
BASE64 = b"c2VjcmV0LTAxMjM0NTY3ODk="


def hashed(secret: bytes) -> str:
    return "hmac:" + hashlib.sha256(secret).hexdigest()[:16]


H, S = hashed(SECRET), SECRET.decode()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/",
        "*",
        "/mcp",
        "/mcp?",
        "/v1/mcp",
        "/api/v2.1/messages/",
        "/2025-11-25/sse",
        "https://example.com",
        "https://example.com:8443/mcp",
        "http://[::1]:9000/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/a".replace("a", "authorize")
        + "?response_type=code&code_challenge_method=S256&scope=mcp:tools+offline_access",
        "/authorize?redirect_uri=http://localhost:1234/callback",
        "/authorize?resource=https://example.com/mcp",
        "/token?grant_type=urn:ietf:params:oauth:grant-type:device_code",
        "?state=&cursor=",
        "messages",
        "../mcp",
    ],
)
def test_what_tells_of_the_protocol_is_kept(address: str) -> None:
    assert clean_address(address.encode(), hashed) == address


@pytest.mark.parametrize(
    ("address", "clean"),
    [
        (f"/s/{S}/mcp", f"/{hashed(b's')}/{H}/mcp"),
        (f"/{S}", f"/{H}"),
        (f"{S}/mcp", f"./{H}/mcp"),
        (f"https://h/api/mcp/{S}/sse", f"https://h/api/mcp/{H}/sse"),
        (f"https://user:{S}@h:1/mcp", f"https://{hashed(b'user:' + SECRET)}@h:1/mcp"),
        (f"/mcp;jsessionid={S}", f"/{hashed(b'mcp;jsessionid=' + SECRET)}"),
        (f"/mcp?key={S}", f"/mcp?key={H}"),
        (f"/mcp?{S}", f"/mcp?{H}"),
        (f"/mcp?{S}=1", f"/mcp?{hashed(SECRET + b'=1')}"),
        ("/mcp?c2VjcmV0==", f"/mcp?{hashed(b'c2VjcmV0==')}"),
        ("/mcp?c2VjcmV0=", f"/mcp?{hashed(b'c2VjcmV0=')}"),
        ("/mcp?SeCretWord=", f"/mcp?{hashed(b'SeCretWord=')}"),
        (f"/mcp#{S}", f"/mcp#{H}"),
        (f"/authorize?resource=https://u:{S}@h/mcp", f"/authorize?resource=https://{hashed(b'u:' + SECRET)}@h/mcp"),
        (
            f"/authorize?redirect_uri=https%3A%2F%2Fh%2Fcb%3Fcode%3D{S}%26state%3Dx",
            f"/authorize?redirect_uri=https://h/cb?code={H}%26state={hashed(b'x')}",
        ),
        (f"/authorize?redirect_uri={S}", f"/authorize?redirect_uri={H}"),
        (f"/authorize?scope=mcp:tools+{S}", f"/authorize?scope=mcp:tools+{H}"),
        (f"/authorize?scope=https://h/auth/{S}", f"/authorize?scope=https://h/auth/{H}"),
        (f"/authorize?response_type={S}", f"/authorize?response_type={H}"),
        (f"/token?grant_type={S}", f"/token?grant_type={H}"),
    ],
)
def test_what_could_be_secret_is_hashed(address: str, clean: str) -> None:
    assert clean_address(address.encode(), hashed) == clean


POSITIONS = (
    "/%s",
    "%s",
    "/mcp/%s/mcp",
    "/v1%s",
    "https://h/%s",
    "https://%s@h/",
    "https://a:%s@h/",
    "https://h/mcp?%s",
    "/?%s=",
    "/?%s==",
    "/?a=%s",
    "/?%s=a",
    "/?a&%s",
    "/?a=1&%s#x",
    "/mcp#%s",
    "/mcp;%s",
    "/?scope=%s",
    "/?scope=a+%s",
    "/?resource=%s",
    "/?resource=https://%s@h",
    "/?resource=https://h/%s",
    "/?resource=https://h/?a=%s",
    "/?resource=https%%3A%%2F%%2Fh%%2F%%3Fa%%3D%s",
    "/?redirect_uri=https://h/?redirect_uri=https%%3A//h/?redirect_uri=https%%253A//h/%s",
    "/?redirect_uri=http://h/#%s",
    "/?response_type=code+%s",
    "/?code_challenge_method=%s",
    "/?grant_type=%s",
    "//h/%s",
    "http://h:%s/",
    "http://[%s]/",
    "http://[::1%%25%s]/",
    "http://h%%2f%s/",
    "custom://%s/",
    "custom://h:%s/x",
    "%s://h/",
    "/?redirect_uri=%s://h",
    "/?redirect_uri=custom://%s",
    "/?scope=%s://h/a",
    "/.well-known/oauth-protected-resource/%s",
)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("secret", [SECRET, BASE64], ids=["word", "base64"])
def test_a_secret_in_any_position_is_never_shown(position: str, secret: bytes) -> None:
    shown = clean_address((position % secret.decode()).encode(), hashed)
    assert secret.decode().rstrip("=") not in shown


def test_a_segment_that_the_user_names_is_kept() -> None:
    assert clean_address(b"/acme/mcp", hashed, frozenset({b"acme"})) == "/acme/mcp"


def test_equal_segments_have_equal_hashes() -> None:
    upstream, target = clean_address(b"https://h/s/x9/mcp", hashed), clean_address(b"/s/x9/mcp", hashed)
    assert upstream == "https://h" + target


@given(st.binary(max_size=80))
def test_no_bytes_raise(address: bytes) -> None:
    clean_address(address, hashed)
    is_web_address(address)
    clean_address(b"/?redirect_uri=http://" + address, hashed).encode()


@pytest.mark.parametrize("word", [b"https://h/mcp", b"HTTP://h", b"wss://h/x"])
def test_a_web_address(word: bytes) -> None:
    assert is_web_address(word)


@pytest.mark.parametrize("word", [b"", b"h/mcp", b"postgres://u:p@h/db", b"https://", b"x https://h"])
def test_no_web_address(word: bytes) -> None:
    assert not is_web_address(word)
