"""Which values are looked for everywhere, and where they are found."""

import base64
import time
from collections.abc import Iterable

import pytest

from mcpproxy.sharing import known_values
from mcpproxy.sharing.kingfisher import PlainSecret, Secret
from mcpproxy.sharing.known_values import KnownValues, KnownValueSearch, is_distinctive, is_distinctive_host

PASSWORD = "Tr0ub4dor&3"
HOST = "db8.acme-corp.io"


def values_of(secrets: Iterable[tuple[str, str]]) -> KnownValues:
    """The values of secrets, each with its kind."""
    values = KnownValues()
    for kind, text in secrets:
        values.add(Secret(0, len(text), kind), text)
    return values


def found(text: str, *secrets: tuple[str, str]) -> list[str]:
    """What is found of these secrets in a text."""
    return [text[secret.start : secret.end] for secret in KnownValueSearch(values_of(secrets)).secrets(text)]


def test_a_value_is_looked_for_if_it_is_like_no_word_number_or_path() -> None:
    for value in (
        PASSWORD,
        "hunter22",
        "pa55-word",
        "correct-horse-battery-staple",
        "550e8400-e29b-41d4-a716-446655440000",
        "AKIAIOSFODNN7EXAMPLE",
        "пароль123",
    ):
        assert is_distinctive(value), value
    for value in (
        "hunter2",
        "swordfish",
        "Password",
        "same-origin",
        "application/json",
        "clientSecretAccessKeyPassword",
        "notifications/initialized",
        "20261129",
        "4539 1488 0343 6467",
        "1.2.3-beta.4",
        "2026-11-24T10:15:00.123Z",
        "/run/secrets/db1",
        "C:\\keys\\db1.pem",
        "https://login.acme.io/1",
        "hmac:5f0c1b2a9d3e4f50",
        "your_password",
        "********",
        "\ud800" * 9,
        "a1" * 600,
    ):
        assert not is_distinctive(value), value


def test_a_host_is_looked_for_if_it_is_not_public_and_no_file_or_expression() -> None:
    for host in (HOST, "acme.internal", "Api.Acme-Corp.IO"):
        assert is_distinctive_host(host), host
    for host in (
        "localhost",
        "database",
        "github.com",
        "example.com",
        "readme.md",
        "www.wikipedia.org",
        "self.hostname",
        "10.11.12.13",
    ):
        assert not is_distinctive_host(host), host


def test_a_value_is_found_at_word_borders_only() -> None:
    for text in (f"it is {PASSWORD}.", f"({PASSWORD})", f"pw:{PASSWORD}", f"密码是{PASSWORD}。", f"x-{PASSWORD}-y"):
        assert found(text, ("named-secret", PASSWORD)) == [PASSWORD], text
    for text in (f"x{PASSWORD}", f"{PASSWORD}0", f"_{PASSWORD}", f"{PASSWORD}_", PASSWORD[1:], "Tr0ub4dor&amp;3"):
        assert found(text, ("named-secret", PASSWORD)) == [], text
    assert found("say a1b2c3d4!!more", ("named-secret", "a1b2c3d4!!")) == ["a1b2c3d4!!"]


def test_a_host_is_found_before_a_port_a_path_and_a_full_stop() -> None:
    for text in (f"host={HOST}:5432", f"{HOST}/x", f"on {HOST}.", f"user@{HOST}", HOST.upper()):
        assert [host.lower() for host in found(text, ("host", HOST))] == [HOST], text
    assert found("xdb8.acme-corp.io db8.acme-corp.ion", ("host", HOST)) == []


def test_a_host_in_a_longer_one_is_found_with_it_unless_that_is_public_or_code() -> None:
    search = KnownValueSearch(values_of([("host", "acme.internal"), ("host", "ietf.net"), ("host", "mozilla-x.org")]))
    for text in ("api.eu-1.acme.internal", "a.b.c.ietf.net", "a-ietf.net"):
        (secret,) = search.secrets(f"on {text} now")
        assert (secret.start, secret.end) == (3, 3 + len(text))
        assert search.is_host(text) == text.startswith(("api", "a.b"))
    for text in ("acme.internal.utils", "acme.internal()", "x.acme.internal.y", "modelcontextprotocol.io"):
        assert list(search.secrets(text)) == [], text


def test_of_values_that_begin_alike_the_longest_at_a_border_is_found() -> None:
    secrets = [("named-secret", "a1b2c3d4"), ("named-secret", "a1b2c3d4.x"), ("named-secret", "a1b2c3d4.x.y")]
    assert found("a1b2c3d4.xyz", *secrets) == ["a1b2c3d4"]
    assert found("a1b2c3d4.x.yz and a1b2c3d4.x.y", *secrets) == ["a1b2c3d4.x", "a1b2c3d4.x.y"]
    assert found("é\x00 a1b2c3d4z é a1b2c3d4 \ud800", *secrets) == ["a1b2c3d4"]


def test_a_short_value_is_found_in_base64_and_hexadecimal() -> None:
    for value in (PASSWORD, "hunter22"):
        once = base64.b64encode(value.encode())
        for spelt in (
            once.decode(),
            base64.b64encode(once).decode(),
            value.encode().hex(),
            value.encode().hex().upper(),
        ):
            assert found(f"see {spelt} there", ("named-secret", value)) == [spelt]
    assert found("see 6b6f77616c736b61 there", ("user-name", "kowalska")) == ["6b6f77616c736b61"]
    assert found("see 616461 there", ("user-name", "ada")) == []


def test_what_is_recognised_in_an_encoding_is_looked_for_in_plain_text() -> None:
    values = KnownValues()
    values.add(Secret(0, 4, "secret-in-base64", PlainSecret("named-secret", PASSWORD)), "abcd")
    values.add(Secret(0, 4, "personal-in-base64", PlainSecret("host", HOST)), "abcd")
    assert list(values.secrets) == [PASSWORD]
    assert values.hosts == {HOST}


def test_the_user_and_the_password_of_a_url_are_looked_for_decoded() -> None:
    assert list(values_of([("url-user", "app:p%4055word")]).secrets) == ["p%4055word", "p@55word"]
    assert list(values_of([("url-user", "postgres:secret")]).secrets) == []


def test_values_that_are_replaced_only_because_of_their_place_are_not_looked_for() -> None:
    kinds = ("body", "unparsed", "client-metadata", "email", "blob", "known-value", "url-parameter", "azure-tenant-id")
    assert values_of([(kind, "c0nversation") for kind in kinds]).count == 0
    assert values_of([("url-parameter", "aB3dE5gH7jK9mN1pQ3")]).count == 1


def test_code_after_a_name_of_a_secret_is_not_looked_for() -> None:
    code = ("Uint8Array", "base64.b16encode", "self._decode_base64url_segment", "Ed25519PrivateKey", "fetchUserToken2x")
    assert list(values_of([("assigned-secret", text) for text in code]).secrets) == []
    secrets = [
        "Zx8823451q",
        "Tr0ub4dor3",
        "hunter22",
        "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        "correct-horse-battery-9",
    ]
    assert list(values_of([("assigned-secret", text) for text in secrets]).secrets) == secrets
    assert list(values_of([("named-secret", "Uint8Array")]).secrets) == ["Uint8Array"]


def test_a_value_with_digits_after_password_is_looked_for_although_it_is_like_a_name_in_code() -> None:
    for before in ("password=", "Password: '", "DB_PASSWORD=", "secret => ", 'passphrase: "'):
        for value, is_known in (
            ("Qwe9rtyMoth4", True),
            ("qwerty9moth", True),
            ("fetchUserToken", False),
            ("Uint8Array", False),
            ("hashlib.sha2x", False),
        ):
            values = KnownValues()
            text = f"the {before}{value}"
            values.add(Secret(len(text) - len(value), len(text), "assigned-secret"), text)
            assert (list(values.secrets) == [value]) == is_known, text
    for text in ("token=Qwe9rtyMoth4", "Qwe9rtyMoth4"):
        values = KnownValues()
        values.add(Secret(len(text) - 12, len(text), "assigned-secret"), text)
        assert values.count == 0, text
    assert list(values_of([("assigned-secret", "abcd1234efgh5678ijkl")]).secrets) == ["abcd1234efgh5678ijkl"]


def test_values_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_values.MAX_VALUES == 10_000
    monkeypatch.setattr(known_values, "MAX_VALUES", 10)
    values = values_of([("named-secret", f"pa55word{number % 15}") for number in range(30)])
    assert (values.count, values.left_out) == (10, 5)
    values.add(Secret(0, 2000, "jwt"), "a1" * 1000)
    assert (values.count, values.left_out) == (10, 6)


def test_the_names_of_most_users_are_known() -> None:
    names = ["ann", "Kowalska", "kowalska", "admin", "x", "1234"]
    assert values_of([("user-name", name) for name in names]).users == {"ann", "kowalska"}


def test_time_is_linear_in_a_text_of_values_inside_longer_words() -> None:
    nested = KnownValueSearch(values_of([("named-secret", "a1" * size) for size in range(4, 200)]))

    def searching_s(size: int) -> float:
        text = "a1" * size
        began = time.process_time()
        assert list(nested.secrets(text)) == []
        return time.process_time() - began

    searching_s(1_000)
    assert searching_s(200_000) < 12 * searching_s(50_000) + 0.1


def test_a_value_may_occur_however_json_spells_it() -> None:
    search = KnownValueSearch(values_of([("named-secret", 'a1b2"c3d4/\\x'), ("host", HOST)]))
    for raw in ('{"a":"\\na1b2\\"c3d4\\/\\\\x"}', f'{{"a":"\\n{HOST.upper()}"}}'):
        assert search.may_occur(raw), raw
    assert not search.may_occur('{"a":"nothing of it"}')
    assert KnownValueSearch(values_of([("named-secret", "парольпарольпароль!парольпароль")])).may_occur("anything")
