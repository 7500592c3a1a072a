"""Forms of credentials, by an example of each, and that no text takes long to search for them."""

import time
from collections.abc import Callable, Iterable

import pytest

from mcpproxy.sharing.card_numbers import card_numbers
from mcpproxy.sharing.logins import login_parts
from mcpproxy.sharing.network_addresses import private_addresses
from mcpproxy.sharing.patterns import credentials, personal_data
from mcpproxy.sharing.personal_numbers import personal_numbers
from mcpproxy.sharing.pseudonyms import PseudonymGenerator

BODY = "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pQ7rS9t"


def found(text: str) -> list[tuple[str, str]]:
    return [(secret.kind, text[secret.start : secret.end]) for secret in credentials(text)]


def test_the_private_lines_of_a_putty_key_are_found_with_their_mac() -> None:
    for version, mac in (("2", "ab" * 20), ("3", "cd" * 32)):
        private = f"{BODY}A\n{BODY}==\nPrivate-MAC: {mac}"
        key = (
            f"PuTTY-User-Key-File-{version}: ssh-rsa\nEncryption: none\nComment: work\nPublic-Lines: 1\n{BODY}\n"
            f"Private-Lines: 2\n{private}"
        )
        assert found(f"{key}\nThe end.") == [("private-key", private)]
        assert found(key.replace("\n", "\r\n")) == [("private-key", private.replace("\n", "\r\n"))]


def test_discord_tokens_are_found() -> None:
    for token in (f"MTA1ODc2NTQzMjEwOTg3NjU0Mw.GaB_De.{BODY[:38]}", f"NzkyNzE1NDU0MTk2MDg4ODQy.X-hvzA.{BODY[:27]}"):
        assert ("discord-token", token) in found(f"login({token!r}).")
    assert found("MyModule1.method.another_one_of_them_in_a_class") == []


def test_tokens_that_the_catalogue_leaves_are_found() -> None:
    """It wants another value next to some of them, and others look too little random to it."""
    for token in (
        f"AKCp{BODY}{BODY[:26]}",
        f"cmVmd{BODY}{BODY[:16]}",
        f"sb_secret_{BODY[:31]}",
        f"lsv2_pt_{'0a1b' * 8}_0123456789",
        f"hvs.{BODY}{BODY}{BODY[:6]}",
        f"aB38Q~{BODY[:34]}",
        f"00D{BODY[:12]}!A{BODY}{BODY}",
    ):
        assert token in [secret for _, secret in found(f"see {token}, and more")], token
    key = "0a1b" * 8
    for text in (f"ALGOLIA_ADMIN={key}", f"datadog_app = '{key}'", f'"upstash": "{key}"', f"Zoho key => {key};"):
        assert ("service-key", key) in found(text), text
    assert found(f"algolia: {'abcd' * 8} zoho.com/app=4 datadog: see 2.3.4 of the manual hvs.example sb_secret_") == []


def test_azure_signatures_are_found_outside_of_a_url() -> None:
    for signature in (f"{BODY}=", f"{BODY[:40]}%2F%2b%3D", f"/{BODY[:42]}=", f"+{BODY[:42]}="):
        for text in (f"se=2027-01-01&sig={signature}&sp=r", f"sig={signature}", f'"sig": "{signature}"'):
            assert ("azure-sas-signature", signature) in found(text), text
    assert found("sig=r1 sig=invalid design=flat sig: the signature of the function that was called") == []


def test_an_ipv6_address_has_one_pseudonym_in_all_spellings() -> None:
    make = PseudonymGenerator(bytes(32))
    spellings = ("2a00:1450::200E", "2a00:1450:0:0:0:0:0:200e", "2A00:1450:0000:0000:0000:0000:0000:200e")
    assert len({make.ipv6(spelling) for spelling in spellings}) == 1
    assert not list(private_addresses(make.ipv6(spellings[0])))


HOSTILE = (
    *("0", "1 ", "4 4", "4111 ", "4111.1111.", "4" * 16 + " ", "1\u00a0", "1.2.3.4 ", "1.", "version 1.2.3.4-"),
    *("::", "a:", "fe80:1:", "2a00::1 ", "::ffff:", "1.1:"),
    *("machine a ", "machine a login ", "machine a login b password ", "machine a login b password c ", "default "),
    *("jdbc:oracle:thin:", "jdbc:oracle:thin:a/", "jdbc:oracle:thin:a/b@", "sqlplus a/", "sqlplus -a "),
    *(
        "curl ",
        "curl -u ",
        "curl -u a:",
        "a:5432:",
        "*:*:*:",
        "--password ",
        "--a-",
        "A_KEY",
        "A_KEY=a1",
        "<a>",
        "<a></",
    ),
    *('key="password" ', 'key="password" value="', "password '", "$2b$12$", "$6$", "/webhooks/1/", "https://a://"),
    *("mysql ", "mysql -p", "mysql -pa ", "mysql 'a", 'mysql "', 'mysql"\x1f\na="', "sshpass -p ", " -pa"),
    *(
        "Private-Lines: 1 ",
        "Private-Lines: 1 AAAA ",
        "sig=",
        "sig=a",
        "sig=%2F",
        "M",
        "MTA.",
        f"{BODY[:24]}.GaBcDe.",
        "mfa.",
    ),
    *("+1", "+1 ", "(0", "(030) ", "01 ", "020 7946 ", "phone: 1", "phone: ", "DE89 3704 0044 0532 0130 01 ", "DE89"),
    *("00:", "00-", "001a.", "00:1a:2b:3c:4d:5e:"),
    *("your-", "a_", "xx-", "token=xx-"),
    *("pwd=/", "publickeytoken=", "password=$", "a@b.", "a@b.c.", "://a:", "redis://:a@b.io"),
)
SEARCHES: tuple[Callable[[str], Iterable[object]], ...] = (
    *(private_addresses, card_numbers, login_parts, personal_numbers),
    *(credentials, personal_data),
)


def check_linear(size: int) -> None:
    """Four times as much takes four times as long; what grows with the square would take sixteen times as long."""
    for unit in HOSTILE:
        for search in SEARCHES:
            small, large = searching_s(search, unit, size), searching_s(search, unit, size * 4)
            assert large < 12 * small + 0.5, (search.__name__, unit)


def test_a_value_that_is_no_secret_is_not_read_again_for_each_name_in_it() -> None:
    for unit in ("pwd=/", "publickeytoken=", "password=$"):
        assert searching_s(credentials, unit, 1 << 17) < 1, unit


def searching_s(search: Callable[[str], Iterable[object]], unit: str, size: int) -> float:
    """How long it takes to search so long a text of this."""
    text = (unit * (size // len(unit) + 1))[:size]
    began = time.process_time()
    for _ in search(text):
        pass
    return time.process_time() - began


def test_time_is_linear_in_a_hostile_text() -> None:
    check_linear(1 << 11)


@pytest.mark.soak
def test_time_is_linear_in_a_megabyte_of_hostile_text() -> None:
    check_linear(1 << 18)
