"""Secrets of every kind, at every place and in every spelling: what `share` leaves is what its page says."""

import json
import re
from pathlib import Path
from random import Random

import pytest

from captures.integrity import inspect_file
from captures.reader import Capture
from mcpproxy.sharing import redacted_copy
from mcpproxy.sharing.scan import likely_secrets
from tests.mcpproxy.sharing.leftovers import left, readings
from tests.mcpproxy.sharing.matrix import in_each_spelling, part, rewritten
from tests.mcpproxy.sharing.secret_forms import fresh
from tests.mcpproxy.sharing.spellings import SPELLINGS, escaped
from tests.mcpproxy.sharing.written import written

PAGE = Path(__file__).parents[3] / "docs/commands/share.md"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, secret_rules: None) -> tuple[str, Path]:
    """The part of the page, and the folder with the captures that it was made from."""
    folder = tmp_path_factory.mktemp("matrix")
    return part(folder), folder


@pytest.mark.costly("14,000 secrets are planted, shared and looked for")
def test_the_page_says_what_is_left(measured: tuple[str, Path]) -> None:
    page = PAGE.read_text("utf-8")
    # If this fails, look at what has become weaker. If it should be so, or is better than before: `make share-docs`.
    assert rewritten(page, measured[0]) == page


@pytest.mark.soak
def test_of_all_combinations_no_other_kind_is_left(secret_rules: None, tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    left = in_each_spelling(tmp_path, share=1).left
    assert [cell for cell in left if not re.search(rf"^\|.*{re.escape(cell.kind)}", page, re.MULTILINE)] == []


@pytest.mark.costly("it scans all of them, and their copy")
def test_a_scan_finds_the_secrets_of_the_original_and_none_in_the_copy(measured: tuple[str, Path]) -> None:
    folder = measured[1] / "others"
    assert list(likely_secrets(Capture(folder / "copy.mcpcap"), personal=True)) == []
    assert len(list(likely_secrets(Capture(folder / "original.mcpcap")))) > 2000


def test_the_copy_is_a_sound_capture_with_the_same_records(measured: tuple[str, Path]) -> None:
    folder = measured[1] / "others"
    inspection = inspect_file(folder / "copy.mcpcap")
    assert (inspection.state, inspection.is_redacted) == ("complete", True)
    before, after = (
        [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("original.mcpcap", "copy.mcpcap")
    )
    assert [(one["seq"], one["rec"], one["t_ns"]) for one in after] == [
        (one["seq"], one["rec"], one["t_ns"]) for one in before
    ]


def test_another_share_has_other_pseudonyms(secret_rules: None, tmp_path: Path) -> None:
    texts = [secret.text for secret in fresh(Random(29))]
    original, copies = tmp_path / "original.mcpcap", [tmp_path / "one.mcpcap", tmp_path / "two.mcpcap"]
    original.write_bytes(b"".join(written([("s2c", {"id": 2, "result": {"v": texts}})])))
    for copy in copies:
        redacted_copy(original, copy)
    first, second = (
        {word for word in path.read_text("utf-8").split('\\"') if word.startswith(("hmac:", "user-", "host-"))}
        for path in copies
    )
    assert len(first) > 50
    assert first & second == set()


def test_a_secret_is_seen_in_each_spelling() -> None:
    secret = "Tr0ub4dor&3-horse.battery"  # no secret of anyone
    for name, spell in SPELLINGS.items():
        spelled = escaped(spell(secret))
        assert any(left(secret, reading) for reading in readings(f"look: {spelled}, and more")), name
