"""What is kept of a response that is not a message: text for people, without the credentials that it repeats."""

import time

import pytest

from captures.addresses import clean_address
from mcpproxy.recorder.response_text import MAX_BODY_TEXT_BYTES, MAX_OAUTH_MEMBER_CHARS, TextCleaner
from mcpproxy.wire.framing import Fields

TARGET = b"/mcp/tenant-4711?api_key=query%2Bsecret&verbose=1"
REQUEST = Fields(
    [
        (b"Authorization", b"Bearer tok-1234"),
        (b"Cookie", b"theme=dark; sid=cookie-5678"),
        (b"X-Api-Key", b'quoted"key<9>'),
        (b"Mcp-Session-Id", b"session-2468"),
        (b"User-Agent", b"client/1.0"),
        (b"Referer", b"https://example.com/mcp/tenant-4711"),
    ]
)
RESPONSE = Fields(
    [(b"Set-Cookie", b"sid=renewed-1357; Path=/"), (b"Server", b"nginx/1.25.3"), (b"X-Id", b"plain-words")]
)
SECRETS = ("tok-1234", "cookie-5678", 'quoted"key<9>', "session-2468", "tenant-4711", "query+secret", "renewed-1357")


def cleaner(request: Fields = REQUEST) -> TextCleaner:
    return TextCleaner(TARGET, request, RESPONSE, hashed, clean)


def hashed(_secret: bytes) -> str:
    return "hmac:#"


def clean(address: bytes) -> str:
    return clean_address(address, hashed)


def test_every_credential_of_the_exchange_is_replaced_however_it_is_spelt() -> None:
    spelt = (
        *SECRETS,
        "query%2Bsecret",
        "query%2bsecret",
        "quoted&quot;key&lt;9&gt;",
        r"quoted\"key<9>",
        "quoted%22key%3C9%3E",
    )
    for secret in spelt:
        for text in (f"no such key: {secret}", f"<p>{secret}</p>", f"{secret}{secret}"):
            said = cleaner().cleaned_body(text.encode(), b"text/html; charset=utf-8")
            assert said is not None
            assert secret not in said, text
            assert "hmac:#" in said


def test_a_basic_password_is_replaced() -> None:
    fields = Fields([(b"Authorization", b"Basic YWRhOnN3b3JkZmlzaA==")])
    said = cleaner(fields).cleaned_body(b"ada may not use swordfish, nor YWRhOnN3b3JkZmlzaA==", b"text/plain")
    assert said == "ada may not use hmac:#, nor hmac:#"


def test_values_that_are_words_stay() -> None:
    fields = Fields([(b"X-Forwarded-Proto", b"http"), (b"X-Runtime", b"node"), (b"X-Key", b"key-12345, key-67890")])
    plain = TextCleaner(b"/mcp?verbose=true&api_key=abcd", fields, Fields([]), hashed, clean)
    said = plain.cleaned_body(b"http node: true, not abcd or key-67890", b"text/plain")
    assert said == "http node: true, not hmac:# or hmac:#"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"access_token":"zoqdef"},"a":1}',
        '{"message":"{\\"access_token\\":\\"zoqdef\\"}"}',
        "<pre>{&quot;access_token&quot;: &quot;zoqdef&quot;}</pre>",
        "{'access_token': 'zoqdef'}",
        "failed at https://a.example/x?access_token=zoqdef&b=c",
    ],
)
def test_members_in_texts_lose_their_values_too(text: str) -> None:
    for kind in (b"application/json", b"text/html"):
        said = cleaner().cleaned_body(text.encode(), kind)
        assert said is None or "zoqdef" not in said
        assert said is None or "hmac:#" in said


def test_a_text_that_spells_a_secret_in_a_way_that_nothing_replaces_is_not_kept() -> None:
    for spelt in ("&#116;ok-1234", "%74ok-1234"):
        assert cleaner().cleaned_body(f"no such key: {spelt}".encode(), b"text/plain") is None


@pytest.mark.parametrize(
    ("field", "echo"),
    [
        (b"Basic c2tfbGl2ZV9hYmNkZWZnaDo=", "sk_live_abcdefgh"),
        (b'Token token="S3cr3tK3y99", nonce="def"', "S3cr3tK3y99"),
        (b"Bearer\tab/cd+efgh==", r"ab\/cd+efgh=="),
        (b"Bearer unrelated", "Bearer auth_S3cr3t99"),
        (b"Bearer unrelated", "Bearer 17|S3cr3t99abc"),
        (b"Bearer unrelated", "Bearer: 'S3cr3t99abc'"),
        (b"Bearer unrelated", "session 5f3e9a77-1c2d-4e5f-8a9b-0c1d2e3f4a5b"),
    ],
)
def test_credentials_that_look_like_one_are_not_kept(field: bytes, echo: str) -> None:
    refused = TextCleaner(b"/mcp", Fields([(b"Authorization", field)]), Fields([]), hashed, clean)
    said = refused.cleaned_body(f"no such key: {echo}.".encode(), b"text/plain")
    assert said is not None
    assert "hmac:#" in said
    for part in ("sk_live_abcdefgh", "S3cr3t", "cd+efgh", "5f3e9a77", "0c1d2e3f4a5b"):
        assert part not in said


def test_an_address_of_the_response_is_not_repeated() -> None:
    given = Fields([(b"Location", b"https://sso.example/login?state=zoqdefghijk")])
    said = TextCleaner(b"/mcp", Fields([]), given, hashed, clean).cleaned_body(
        b"Redirecting to ?state=zoqdefghijk", b"text/plain"
    )
    assert said == "Redirecting to ?state=hmac:#"


def test_what_broke_off_loses_its_end() -> None:
    said = cleaner().cleaned_body(b"this is an invalid session: session-246", b"text/plain", is_cut=True)
    assert said is not None
    assert "session-2" not in said


def test_ordinary_refusals_stay_legible() -> None:
    for text in (
        "502 Bad Gateway",
        "nginx/1.25.3",
        "Missing bearer credentials",
        "Bearer is missing",
        "Error: Cannot POST /mcp (TypeError)",
        "Rate limit of 60 requests in 2026 exceeded, 1048576 bytes left, HTTP/1.1",
    ):
        assert (
            TextCleaner(b"/mcp", Fields([]), Fields([]), hashed, clean).cleaned_body(text.encode(), b"text/plain")
            == text
        )


def test_numbers_and_depths_without_end_do_no_harm() -> None:
    for body in (b"see &#" + b"9" * 5000 + b";", b'{"token":' + b"[" * 300 + b"]" * 300 + b"}"):
        assert cleaner().cleaned_body(body, b"application/json") is not None


def test_no_charset_and_no_field_makes_it_fail() -> None:
    for charset in ("idna", "punycode", "undefined", "unicode_escape", "utf-7", "hex", "utf-16", "x" * 99):
        cleaner().cleaned_body(b"xn--a\xff" * 9000, b"text/plain; charset=" + charset.encode())
    for value in (b"", b" ", b"Basic", b"Basic \xff", b"Basic =", b"\xff" * 99, b"=;=", b'"'):
        for name in (b"authorization", b"cookie", b"x-api-key"):
            cleaner(Fields([(name, value)])).cleaned_body(b"some text", b"text/plain")


def test_words_that_are_no_secret_stay() -> None:
    text = "client/1.0 asked nginx/1.25.3 for plain-words with verbose=1 on example.com: Bearer token required"
    assert cleaner().cleaned_body(text.encode(), b"text/plain") == text


def test_what_follows_bearer_goes() -> None:
    assert cleaner().cleaned_body(b"bad: bearer  eyJhbGc.x-y_z", b"") == "bad: bearer  hmac:#"


@pytest.mark.parametrize("is_cut", [False, True])
def test_members_named_like_a_secret_lose_their_values(*, is_cut: bool) -> None:
    body = (
        b'{"error":"denied","details":{"access_token":"zoqdef","x":[{"clientSecret":["z1b2","q3d4"]}]},'
        b'"token_type":"Bearer"}'
    )
    said = cleaner().cleaned_body(body[:-1] if is_cut else body, b"application/problem+json")
    assert said is not None
    assert not [secret for secret in ("zoqdef", "z1b2", "q3d4") if secret in said], said
    assert "denied" in said


def test_json_without_secrets_stays_as_it_was_sent() -> None:
    assert (
        cleaner().cleaned_body(b'{ "detail" : "slow down" }\n', b"application/json") == '{ "detail" : "slow down" }\n'
    )


def test_members_that_hold_nothing_hide_nothing_behind_them() -> None:
    for said in (
        '{"token":[],"detail":"gone"}',
        '{"secret":null,"detail":"gone"}',
        '{"max_tokens":4096,"detail":"gone"}',
    ):
        assert cleaner().cleaned_body(said.encode(), b"application/json") == said
        assert cleaner().cleaned_body(said[:-1].encode(), b"application/json") == said[:-1]


def test_only_text_is_kept_and_not_without_end() -> None:
    assert cleaner().cleaned_body(b"\x89PNG\r\n\x1a\n\0\0\0", b"image/png") is None
    assert cleaner().cleaned_body(bytes(range(256)) * 4, b"text/plain") is None
    assert cleaner().cleaned_body(b"  \n ", b"text/plain") is None
    assert cleaner().cleaned_body("falsch: ä".encode("latin-1"), b"text/plain; charset=ISO-8859-1") == "falsch: ä"
    assert cleaner().cleaned_body(b"what?", b"text/plain; charset=no-such") == "what?"
    assert cleaner().cleaned_body(b"", b"text/plain") is None


def test_a_secret_that_is_cut_is_not_kept_in_part() -> None:
    for at in range(MAX_BODY_TEXT_BYTES - 16, MAX_BODY_TEXT_BYTES + 2):
        said = cleaner().cleaned_body(b" " * (at - 1) + b"x" + SECRETS[1].encode() * 2, b"text/plain")
        assert "cook" not in (said or ""), at


@pytest.mark.parametrize("count", [300, 20_000])
def test_nothing_is_kept_where_there_is_too_much_to_look_for(count: int) -> None:
    many = Fields([(b"Cookie", b"; ".join(b"c=cookie-%d" % number for number in range(count)))])
    assert cleaner(many).cleaned_body(b"denied", b"text/plain") is None
    assert cleaner(many).cleaned_texts({"error": "denied"}) == {}


def test_an_imported_text_stays_as_it_is() -> None:
    plain = TextCleaner(TARGET, REQUEST, RESPONSE, None, clean)
    assert plain.cleaned_body(b"tok-1234 Bearer abc", b"text/plain") == "tok-1234 Bearer abc"


def test_named_texts_are_cleaned_like_bodies() -> None:
    said = {
        "error": "invalid_grant",
        "error_description": "tok-1234 is over",
        "error_uri": "https://a.example/secretpath",
        "scope": "entity &#116;ok-1234",
    }
    assert cleaner().cleaned_texts(said) == {
        "error": "invalid_grant",
        "error_description": "hmac:# is over",
        "error_uri": "https://a.example/hmac:#",
    }


def test_a_long_text_is_shortened_and_a_secret_at_its_end_is_not_kept_in_part() -> None:
    for at in range(MAX_OAUTH_MEMBER_CHARS - 16, MAX_OAUTH_MEMBER_CHARS + 2):
        said = cleaner().cleaned_texts({"error": " " * (at - 1) + "x" + SECRETS[1]})["error"]
        assert "cook" not in said, at
        assert len(said) <= MAX_OAUTH_MEMBER_CHARS


def test_time_is_linear_in_a_hostile_body() -> None:
    hostile = (
        b'"token"' + b" " * 60_000,
        b'"' * 65_000,
        b"bearer " * 9_000,
        b'{"a":' * 13_000,
        b"\\" * 65_000,
        b'"token":"' * 7_000,
        b"'token':'" * 7_000,
        b"token=" * 10_000,
        b"&quot;" * 10_000,
        b"a-" * 32_000,
        b"\\u0041" * 10_000,
        b'"token":[' * 7_000,
    )
    for body in hostile:
        began = time.process_time()
        cleaner().cleaned_body(body[:MAX_BODY_TEXT_BYTES], b"")
        assert time.process_time() - began < 10, body[:20]
