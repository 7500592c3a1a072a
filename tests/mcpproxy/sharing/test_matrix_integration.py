"""Secrets of every kind, at every place and in every spelling: what `share` leaves is what its page says."""

from pathlib import Path

import pytest

from tests.mcpproxy.sharing.leftovers import left, readings
from tests.mcpproxy.sharing.matrix import BEGIN, part, rewritten
from tests.mcpproxy.sharing.spellings import SPELLINGS, escaped

PAGE = Path(__file__).parents[3] / "docs/commands/share.md"


@pytest.mark.costly("30,000 secrets are planted, shared and looked for")
def test_the_page_says_what_is_left(secret_rules: None, tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    assert BEGIN in page
    # Where this fails, look at what has become weaker; if it should be so, run `make share-docs`.
    assert rewritten(page, part(tmp_path)) == page


def test_a_secret_is_seen_in_each_spelling() -> None:
    secret = "Tr0ub4dor&3-horse.battery"  # no secret of anyone
    for name, spell in SPELLINGS.items():
        text = f"look: {escaped(spell(secret))}, and more"
        assert any(left(secret, reading) for reading in readings(text)), name
        assert not any(left(secret, reading) for reading in readings(text.replace(escaped(spell(secret)), "")))
