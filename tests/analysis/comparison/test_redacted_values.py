"""A secret that a redacted copy lacks is no change; what it cannot be and what is around it is one."""

from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.compare import compare
from analysis.comparison.options import CompareOptions
from analysis.comparison.values.normaliser import normalise
from analysis.comparison.values.redacted_values import RULE, is_same_but_redacted
from mcpproxy.sharing import ShareOptions, redacted_copy
from mcpproxy.sharing.numbered_pseudonyms import _NOUNS, NumberedPseudonyms
from tests.analysis.comparison.sides import Fill, observed, written
from tests.analysis.store.capture_writer import CaptureWriter

KEY = "sk-ant-api03-Zx8Kq2LmN4pRt6VwYb1CdEfGhJ9sUa7o-QAAA"
OTHER_KEY = "sk-ant-api03-Bc3Df5Gh7Jk9Lm1Np2Qr4St6Uv8Wx0Yz-QBBB"


@pytest.mark.parametrize(
    ("redacted", "other", "is_same"),
    [
        ("use Bearer token-1", f"use Bearer {KEY}", True),
        ("use Bearer token-1 now", f"use Bearer {KEY} now", True),
        ("token-1 and secret-2.", "abcdefg1 and hunter2-Xq9.", True),
        ("token-1 and secret-2.", "abc and def.", False),
        ("token-1", "token-9", False),
        ("token-1", "CHANGED", False),
        ("token-1", "unauthorized", False),
        ("token-1", "1234567890", False),
        ("token-1", "hmac:0123456789abcdef", True),
        ("token-1 end", "a whole0 other1 end", False),
        ("hmac:0123456789abcdef", "DELETED", False),
        ("⟨redaction tag⟩", "gone", False),
        ("secret-7 is shown", "pw is shown", False),
        ("from user-1@host-2.invalid", "from ada@corp.com", True),
        ("from user-1@host-2.invalid", "from ada", False),
        ("from user-0a1b2c3d@host-0a1b2c3d.invalid", "from nobody", False),
        ("for user-1", "for ada", True),
        ("for user-1", "for ada and eve", False),
        ("for user-1", "for ada@corp.com", False),
        ("for user-0a1b2c3d.", "for ada.", True),
        ("at host-1.invalid", "at corp.com", True),
        ("at host-1.invalid", "at home", False),
        ("at host-0a1b2c3d.invalid", "at home", False),
        ("at 240.1.2.3", "at 10.0.0.7", True),
        ("at 240.1.2.3", "at 2606:4700::1111", True),
        ("at 240.1.2.3", "at corp.com", False),
        ("240.1.2.3", "down", False),
        ("02:00:5e:00:00:01", "3c:22:fb:01:02:03", True),
        ("02:00:5e:00:00:01", "3c-22-fb-01-02-03", True),
        ("02:00:5e:00:00:01", "gone", False),
        ("XX00 0000 0001", "DE89 3704 0044", True),
        ("XX00 0000 0001", "none", False),
        ("value-1", "a sentence", True),
        ("value-1", '{"a": 1}', True),
        ("value-1", 17, False),
        ("value-1", None, False),
        ("value-1", False, False),
        ("value-1", [1], False),
        ("text-1", {"a": 1}, False),
        ("section text-3", "section nothing", True),
        ("section text-3", "chapter nothing", False),
        ("use Bearer hmac:0123456789abcdef", f"use Bearer {KEY}", True),
        ("use Bearer token-1", "use Bearer ", False),
        ("use Bearer token-1", "use Bearer no token", False),
        ("use Bearer token-1", f"use Basic {KEY}", False),
        ("use Bearer token-1 now", f"use Bearer {KEY} later", False),
        ("token-1 and secret-2.", "abc or def.", False),
        ("token-1", 17, False),
        ("token-10x", "abc", False),
        ("no secret", "another", False),
        (17, 18, False),
    ],
)
def test_only_the_secret_may_differ(redacted: Any, other: Any, is_same: bool) -> None:
    assert is_same_but_redacted(normalise(redacted).value, normalise(other).value) is is_same


@pytest.mark.parametrize(
    ("redacted", "other", "is_same"),
    [
        ("token-1", "token-9", True),
        ("token-1", "secret-2", True),
        ("token-1", "hmac:0123456789abcdef", True),
        ("user-5", "user-6", True),
        ("user-5", "user-0a1b2c3d", True),
        ("user-5", "token-6", False),
        ("user-5", "hmac:0123456789abcdef", False),
        ("value-1", "text-2", True),
        ("value-1", "hmac:0123456789abcdef", True),
        ("value-1", "token-2", False),
        ("host-1.invalid", "user-1@host-1.invalid", False),
        ("240.1.2.3", "hmac:0123456789abcdef", False),
    ],
)
def test_two_stand_ins_have_the_same_kind(redacted: Any, other: Any, is_same: bool) -> None:
    values = normalise(redacted).value, normalise(other).value
    assert is_same_but_redacted(*values, is_other_redacted=True) is is_same


def test_every_numbered_pseudonym_of_a_text_is_known() -> None:
    names = NumberedPseudonyms()
    texts = [(names.tag(f"a {kind}", kind), KEY) for kind in (*_NOUNS, "token")]
    texts += [(names.user("ada"), "ada"), (names.host("corp.com"), "corp.com"), (names.email("a@b.c"), "a@b.c")]
    texts += [(names.ip_address(address), address) for address in ("10.0.0.7", "2606:4700::1111")]
    for text, secret in texts:
        redacted, other = (normalise(f"it is {word}, again").value for word in (text, secret))
        assert is_same_but_redacted(redacted, other), text


def _answering(text: str) -> Fill:
    def fill(capture: CaptureWriter) -> None:
        capture.call(100, 1, "login", q="x")
        capture.answer(110, 1, content=[{"type": "text", "text": text}])

    return fill


@pytest.mark.costly("makes a cassette, which loads what finds secrets")
def test_a_cassette_equals_what_is_recorded_anew(tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.mcpcap"
    old = written(tmp_path, "old", _answering(f"use Authorization: Bearer {KEY}"))
    redacted_copy(old, cassette, ShareOptions(is_cassette=True, compares=False))
    assert KEY.encode() not in cassette.read_bytes()
    equal = written(tmp_path, "equal", _answering(f"use Authorization: Bearer {OTHER_KEY}"))
    changed = written(tmp_path, "changed", _answering(f"do not use Authorization: Bearer {OTHER_KEY}"))
    denied = written(tmp_path, "denied", _answering("use Authorization: Bearer denied"))
    pairs = (cassette, equal, 0), (equal, cassette, 0), (cassette, changed, 1), (cassette, denied, 1), (old, changed, 1)
    for one, other, count in pairs:
        sides = observed(one, with_findings=False), observed(other, with_findings=False)
        result = compare(*sides, CompareOptions())
        changes = result.changes
        counts = [(ignored.values, ignored.differed) for ignored in result.ignored if ignored.rule == RULE]
        assert counts == ([] if count else [(2, 2)])
        assert sum(change.kind.id.startswith("value/") for change in changes) == count, changes
