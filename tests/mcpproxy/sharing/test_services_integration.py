"""Tokens of which only the catalogue knows the form: whatever hands a capture on replaces them, a scan reports them."""

import json
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from captures.record import members, seal, stderr_members
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.kingfisher import catalogue, kind_of
from mcpproxy.sharing.patterns import credentials, personal_data
from mcpproxy.sharing.search import SecretSearch
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.html_report.parts import Parts
from tests.mcpproxy.sharing.secret_forms import SERVICES, fresh
from tests.mcpproxy.sharing.spellings import SPELLINGS, escaped
from tests.mcpproxy.sharing.written import written
from tests.parquet import parquet_rows

ENCODED_TWICE: dict[str, Callable[[str], str]] = {
    "hexadecimal": lambda text: text.encode().hex(),
    "base64 twice": lambda text: b64encode(b64encode(text.encode())).decode(),
    "percent-encoding": lambda text: f"a%20{text}%20b",
    "hexadecimal in base64": lambda text: b64encode(text.encode().hex().encode()).decode(),
}
TOKENS = {
    token.kind: token.text
    for token in fresh(Random(31), SERVICES)
    if token.text == token.secret and " " not in token.text
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A call with all of them as arguments, in its result, in a log line and on stderr, and one with them encoded."""
    text = ", then ".join(TOKENS.values())
    encoded = [spell(token) for token in TOKENS.values() for spell in ENCODED_TWICE.values()]
    named = {f"v{number}": token for number, token in enumerate(TOKENS.values())}
    *lines, close = written(
        [
            ("c2s", {"id": 2, "method": "tools/call", "params": {"name": "look", "arguments": named}}),
            ("s2c", {"id": 2, "result": {"content": [{"type": "text", "text": f"seen: {text}"}]}}),
            ("s2c", f"started with {text}".encode()),
            ("c2s", {"id": 3, "method": "tools/call", "params": {"name": "look", "arguments": {"all": encoded}}}),
            ("s2c", {"id": 3, "result": {"content": [{"type": "text", "text": f"seen: {' and '.join(encoded)}"}]}}),
        ]
    )
    at = json.loads(close)
    lines.append(seal(at["seq"], at["t_ns"], "stderr", stderr_members(f"warning: {text}".encode())))
    lines.append(seal(at["seq"] + 1, at["t_ns"], "close", members(ending="client", totals={})))
    path = tmp_path / "leaky.mcpcap"
    path.write_bytes(b"".join(lines))
    return path


@pytest.mark.usefixtures("secret_rules")
def test_the_catalogue_finds_what_no_pattern_of_ours_does() -> None:
    for kind, token in TOKENS.items():
        text = f"see {token} there"
        assert [*credentials(text), *personal_data(text)] == [], kind
        assert (4, 4 + len(token)) in {(found.start, found.end) for found in catalogue().secrets(text)}, kind


def test_a_kind_is_the_name_of_a_rule_without_its_catalogue_and_variant() -> None:
    for rule, kind in (
        ("betterleaks.stripe-access-token", "stripe-access-token"),
        ("betterleaks.auth0-domain.1", "auth0-domain"),
        ("betterleaks.heroku-api-key-v2", "heroku-api-key-v2"),
        ("veles.secrets/npmjsaccesstoken", "npmjsaccesstoken"),
    ):
        assert kind_of(rule) == kind


@pytest.mark.usefixtures("secret_rules")
def test_a_token_ends_before_punctuation() -> None:
    """Before those that may be a part of it, too, if no word follows, but for `%+-=_~`."""
    for kind, token in TOKENS.items():
        for mark in (*"!\"#$&'()*,;<>?@[\\]^`{|} \n\r\t\x1f”»。…", *".:/", "...", '."', ".)", "</a>"):
            for behind in ("", " and more", *(["x", token] if mark[-1] not in ".:/" else [])):
                text = f"see {token}{mark}{behind}"
                places = {(found.start, found.end) for found in catalogue().secrets(text)}
                assert (4, 4 + len(token)) in places, (kind, text)


@pytest.mark.usefixtures("secret_rules")
def test_tokens_are_found_in_each_encoding() -> None:
    for kind, token in TOKENS.items():
        for name, spell in SPELLINGS.items():
            assert SecretSearch(catalogue(), ShareChoices(), blobs=False).secrets(escaped(spell(token))), (kind, name)


def test_a_scan_reports_each_of_them(capture: Path) -> None:
    done = mcpproxy("scan", "--json", capture)
    assert done.returncode == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for number, (kind, token) in enumerate(TOKENS.items()):
        (argument,) = (row for row in rows if row["pointer"] == f"/params/arguments/v{number}")
        assert (argument["begins"], argument["length"]) == (f"{token[:4]}…", len(token)), kind
        encoded = {row["pointer"] for row in rows if row["pointer"].startswith("/params/arguments/all/")}
        assert len(encoded) == len(TOKENS) * len(ENCODED_TWICE)
        beside = {row["record"] for row in rows if row["length"] == len(token)}
        assert beside >= {"frame", "stderr"}, kind
        assert token.encode() not in done.stdout, kind


def held(path: Path) -> str:
    """All text in a file, or in the files of a folder."""
    if path.is_dir():
        return "".join(held(inner) for inner in path.iterdir())
    if path.suffix == ".parquet":
        return repr(parquet_rows([path]))
    text = path.read_bytes().decode("utf-8", "replace")
    return Parts(text).data() if text.startswith("<!doctype html>") else text


def exporting(form: str, *more: str) -> Callable[[Path, Path], list[str | Path]]:
    return lambda capture, out: ["export", "--redact", "--format", form, *more, "-o", out, capture]


WAYS: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "share": lambda capture, out: ["share", "-o", out.with_suffix(".mcpcap"), capture],
    "ship": lambda capture, out: ["ship", "--raw", out, capture],
    "report": lambda capture, out: ["report", "--redact", "-o", out, capture],
    "markdown": exporting("markdown"),
    "otlp": exporting("otlp", "--payloads"),
    "parquet": exporting("parquet"),
    "csv": exporting("csv"),
}


@pytest.mark.parametrize("way", WAYS)
def test_none_of_them_leaves(capture: Path, tmp_path: Path, way: str) -> None:
    out = tmp_path / "out"
    done = mcpproxy(*WAYS[way](capture, out))
    assert done.returncode == 0, complaints(done)
    text = held(out if out.exists() else out.with_suffix(".mcpcap"))
    assert "look" in text
    assert "hmac:" in text
    assert [kind for kind, token in TOKENS.items() if token in text] == []
    assert [
        (kind, name)
        for kind, token in TOKENS.items()
        for name, spell in ENCODED_TWICE.items()
        if spell(token).removesuffix("=") in text
    ] == []


@pytest.mark.usefixtures("secret_rules")
def test_many_beginnings_of_private_keys_are_searched_in_linear_time() -> None:
    search = SecretSearch(catalogue(), ShareChoices(), blobs=True)
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Z3VS5JJcds3\n-----END RSA PRIVATE KEY-----\n"
    assert len({secret.start for secret in search.secrets(200 * key)}) == 200
    began = time.process_time()
    search.secrets(10_000 * "-----BEGIN PRIVATE KEY-----")
    assert time.process_time() - began < 3
