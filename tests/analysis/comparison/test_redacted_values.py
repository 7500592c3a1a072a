"""A secret that a redacted copy lacks is no change; everything around it is compared."""

from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.compare import compare
from analysis.comparison.options import CompareOptions
from analysis.comparison.values.normaliser import normalise
from analysis.comparison.values.redacted_values import is_same_but_redacted
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
        ("token-1 and secret-2.", "abc and def.", True),
        ("from user-1@host-2.invalid", "from ada@corp.com", True),
        ("token-1", "any", True),
        ("value-1", "a sentence", True),
        ("value-1", 17, True),
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


def test_every_numbered_pseudonym_of_a_text_is_known() -> None:
    names = NumberedPseudonyms()
    texts = [names.tag(f"a {kind}", kind) for kind in (*_NOUNS, "token")]
    texts += [names.user("ada"), names.host("corp.com"), f"{names.user('ada')}@{names.host('corp.com')}"]
    for text in texts:
        assert is_same_but_redacted(f"it is {text}, again", "it is x, again"), text


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
    for one, other, count in ((cassette, equal, 0), (equal, cassette, 0), (cassette, changed, 1), (old, changed, 1)):
        sides = observed(one, with_findings=False), observed(other, with_findings=False)
        changes = compare(*sides, CompareOptions()).changes
        assert sum(change.kind.id.startswith("value/") for change in changes) == count, changes
