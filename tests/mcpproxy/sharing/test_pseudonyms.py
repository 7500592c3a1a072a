"""Pseudonyms have the form of what they replace."""

from mcpproxy.sharing.pseudonyms import PSEUDONYM, PseudonymGenerator, passes_luhn


def test_pseudonyms_keep_their_form() -> None:
    make = PseudonymGenerator(bytes(32))
    assert PSEUDONYM.fullmatch(make.tag("x"))
    assert make.email("Bob@Acme.io") == f"{make.user('bob')}@{make.host('acme.IO')}"
    assert make.ipv4("10.1.2.3").startswith("24")
    assert make.ipv6("fe80::1").startswith("2001:db8:")
    for digits in ("4539148803436467", "4111 1111 1111 1111", "73914", "-12.50e3", "0"):
        new = make.number(digits)
        assert (len(new), [char.isdigit() for char in new]) == (len(digits), [char.isdigit() for char in digits])
        assert not passes_luhn(new) or len(digits) < 3
    assert len(make.identifier("0d3f6a5e-9b1c")) == 13
    assert PseudonymGenerator().tag("x") != make.tag("x")
