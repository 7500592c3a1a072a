"""A secret is found in each encoding, and in several, one inside the other, as it is found in plain text."""

import base64
import json
from collections.abc import Callable
from random import Random
from urllib.parse import quote

import pytest

from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.kingfisher import Secret, catalogue
from mcpproxy.sharing.known_values import KnownValues, KnownValueSearch
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.redaction import Redactor, Replacement
from tests.mcpproxy.sharing.secret_forms import SERVICES, fresh

Encoding = Callable[[str], str]


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def hexadecimal(text: str) -> str:
    return text.encode().hex()


def percent(text: str) -> str:
    """Every character, so that a letter or digit is in front of the text."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


def escaped(text: str) -> str:
    return json.dumps({"a": f"line\n{text}"})


SINGLE: dict[str, Encoding] = {
    "base64": base64_of,
    "hexadecimal": hexadecimal,
    "percent-encoding": percent,
    "percent-encoding after a space": lambda text: f"q%20{quote(text, safe='')}",
    "an escape": escaped,
}


@pytest.fixture(scope="module")
def redactor(secret_rules: None) -> Redactor:
    """One that replaces by default, and knows a user."""
    values = KnownValues()
    values.add(Secret(0, 8, "user-name"), "kowalska")
    return Redactor(
        PseudonymGenerator(bytes(32)),
        catalogue(),
        ShareChoices(),
        bodies=True,
        unparsed=False,
        known=KnownValueSearch(values),
    )


@pytest.mark.costly("each secret in each of 125 encodings")
def test_three_encodings_inside_each_other_are_decoded(redactor: Redactor) -> None:
    tokens = fresh(Random(7))[::3]
    plain = {secret.kind: secret.text for secret in tokens} | {"user": "by the user kowalska"}
    left = []
    for outer, spell in SINGLE.items():
        for middle, respell in SINGLE.items():
            for inner, spell_again in SINGLE.items():
                for kind, text in plain.items():
                    encoded = spell(respell(spell_again(text)))
                    if redactor.redact_text(f"see {encoded} for more", []) == f"see {encoded} for more":
                        left.append((outer, middle, inner, kind))
    assert left == []


def test_only_the_secret_of_a_percent_encoded_text_is_replaced(redactor: Redactor) -> None:
    token = next(secret.text for secret in fresh(Random(9), SERVICES))
    made: list[Replacement] = []
    new = redactor.redact_text(f"https://example.com/cb?page=a%20{token}%20b and {token}", made)
    pseudonym = redactor.pseudonyms.tag(token)
    assert new == f"https://example.com/cb?page=a%20{pseudonym}%20b and {pseudonym}"


@pytest.mark.parametrize(
    "text",
    [
        base64_of("some plain words, and nothing else"),
        hexadecimal("some plain words, and nothing else"),
        base64_of(hexadecimal("some plain words, and nothing else")),
        "https://example.com/search?q=a%20b%2520c&page=2",
        "100%25 of 50%20 are %C3%A4 and %zz",
        "%",
        "%%%41%",
    ],
)
def test_encoded_prose_stays(redactor: Redactor, text: str) -> None:
    assert redactor.redact_text(text, []) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (base64_of("carte\u00a0: marta.kowalska@acme-corp.io"), "Y2FydGXCoDog"),
        (hexadecimal("carte\u202f: marta.kowalska@acme-corp.io"), "6d61727461"),
        ("\n".join(base64_of("marta.kowalska@acme-corp.io " * 3)[at : at + 40] for at in range(0, 200, 40)), "bWFydGE"),
        (json.dumps(json.dumps(json.dumps(json.dumps('password: "hunter22"')))), "hunter22"),
        (json.dumps(json.dumps(json.dumps(json.dumps("C:\\Users\\nina42\\notes.txt")))), "nina42"),
        (r"C:\\\u0055\u0073ers\\\u006eina42\\notes.txt", "ina42"),
        ("https://example.com/login?q=https%3A%2F%2Fdb7.acme-corp.io%2Fstatus&page=2", "acme-corp"),
        ("https://example.com/search?q=postgres://svc:hunter22@db7.acme-corp.io/x", "hunter22"),
        ("deepgram: 4fd0c9b1a2e37586bb1d90c3f6e2a7d85b1c0e94, and more", "4fd0c9b1a2e37586"),
    ],
)
def test_a_secret_is_found_between_other_words(redactor: Redactor, text: str, secret: str) -> None:
    for given in (text, f"Look, {text}, and more"):
        new = redactor.redact_text(given, [])
        assert secret in given
        assert secret not in new
        assert new == redactor.redact_text(new, [])


def test_a_number_that_is_spelt_in_escapes_has_a_pseudonym_without_them(redactor: Redactor) -> None:
    spelt = "".join(f"\\u{ord(char):04x}" for char in "4539148803436467")
    assert redactor.redact_text(f"card: {spelt}.", []) == f"card: {redactor.pseudonyms.tag(spelt)}."
