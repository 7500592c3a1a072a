"""The client's address is read from what the nearest proxies wrote, in each of its spellings."""

import pytest

from mcpproxy.wire.forwarded import client_address
from mcpproxy.wire.framing import Fields

LISTS = {
    "1.1.1.1": "1.1.1.1",
    "1.1.1.1:4711": "1.1.1.1",
    "8.8.8.8, 1.1.1.1": "1.1.1.1",
    "8.8.8.8, 1.1.1.1, 10.0.0.7, 127.0.0.1": "1.1.1.1",
    "10.0.0.7, 127.0.0.1": "10.0.0.7",
    "unknown, 1.1.1.1 ,": "1.1.1.1",
    "2606:4700::1111": "2606:4700::1111",
    "[2606:4700::1111]:443": "2606:4700::1111",
    "": None,
    "unknown": None,
    "\x1b[2J": None,
    "1.1.1.1%": None,
}


@pytest.mark.parametrize(("listed", "address"), LISTS.items())
def test_the_last_public_address_of_a_list_counts(listed: str, address: str | None) -> None:
    assert client_address(Fields([(b"X-Forwarded-For", listed.encode("latin-1"))])) == address


def test_a_list_may_be_in_several_fields() -> None:
    assert client_address(Fields([(b"x-forwarded-for", b"8.8.8.8"), (b"X-Forwarded-For", b"1.1.1.1")])) == "1.1.1.1"


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("for=1.1.1.1;proto=https;by=10.0.0.1", "1.1.1.1"),
        ('For="[2606:4700::1111]:4711"', "2606:4700::1111"),
        ("for=8.8.8.8, for=1.1.1.1", "1.1.1.1"),
        ("for=_hidden", None),
        ("by=1.1.1.1", None),
    ],
)
def test_forwarded_is_read_if_there_is_no_list(value: str, address: str | None) -> None:
    assert client_address(Fields([(b"Forwarded", value.encode())])) == address


def test_only_the_end_of_a_huge_field_is_read() -> None:
    assert client_address(Fields([(b"X-Forwarded-For", b"8.8.8.8," * 100_000 + b" 1.1.1.1")])) == "1.1.1.1"
