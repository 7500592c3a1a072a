"""Pseudonyms of cassettes have the form of what they replace, and are numbered in order."""

from mcpproxy.sharing.numbered_pseudonyms import NumberedPseudonyms
from mcpproxy.sharing.pseudonyms import PSEUDONYM, passes_luhn


def test_secrets_are_numbered_in_order_and_equal_ones_are_equal() -> None:
    make = NumberedPseudonyms()
    assert [make.tag(secret, kind) for secret, kind in (("a", "jwt"), ("b", "jwt"), ("a", "known-value"))] == [
        "token-1",
        "token-2",
        "token-1",
    ]
    assert make.tag("c", "named-secret") == "secret-1"
    assert make.tag("hmac:0123456789abcdef") == make.tag("hmac:0123456789abcdef") == "hmac:0000000000000001"
    assert make.tag("/mcp", "hash") == "hmac:0000000000000002"


def test_they_keep_their_form() -> None:
    make = NumberedPseudonyms()
    assert make.email("Bob@Acme.io") == "user-1@host-1.invalid"
    assert (make.user("bob"), make.host("acme.IO"), make.host("other.io")) == (
        "user-1",
        "host-1.invalid",
        "host-2.invalid",
    )
    assert (make.ipv4("10.1.2.3"), make.ipv4("10.1.2.4")) == ("240.0.0.1", "240.0.0.2")
    assert make.ipv6("fe80::1") == "2001:db8:0000:0000:0000:0000:0000:0001"
    for digits in ("4539148803436467", "4111 1111 1111 1111", "73914", "-12.50e3", "0"):
        new = make.number(digits)
        assert (len(new), [char.isdigit() for char in new]) == (len(digits), [char.isdigit() for char in digits])
        assert not passes_luhn(new) or len(digits) < 3
    assert make.phone("+1 (617) 555-0123") == "+9 (990) 000-0001"
    assert make.iban("DE89 3704 0044 0532 0130 00") == "XX00 0000 0000 0000 0000 01"
    assert make.mac("a4:83:e7:12:34:56") == "02:00:5e:00:00:01"
    assert make.identifier("0d3f6a5e-9b1c") == "00000000-0001"
    assert make.base64("x") == "dG9rZW4tMQ=="


def test_no_pseudonym_is_a_secret_if_the_cassette_is_shared_again() -> None:
    make = NumberedPseudonyms()
    for text in (make.tag("a", "jwt"), make.tag("b", "named-secret"), make.user("bob"), make.host("acme.io")):
        assert PSEUDONYM.fullmatch(text)
    for text in ("my-token-1", "token-1-abc", "token-1234567890", "secret-x", "token-1_a"):
        assert PSEUDONYM.search(text) is None
