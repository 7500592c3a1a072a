"""Secrets of all kinds in all places of a capture: none is left in any byte of the copy, however it is read."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from captures.integrity import inspect_file
from captures.reader import Capture
from mcpproxy.sharing import redacted_copy
from mcpproxy.sharing.scan import likely_secrets
from tests.mcpproxy.sharing.planted import FILLER, Tape, tape


def texts(value: Any) -> list[str]:
    """All texts in a value, and in the JSON that its texts spell."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif value is not None:
            found.append(str(value))
            if isinstance(value, str) and value[:1] in ("{", "[", '"'):
                with suppress(ValueError, RecursionError):
                    waiting.append(json.loads(value))
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, secret_rules: None) -> tuple[Tape, Path, Path]:
    """What was planted, the capture, and its copy."""
    folder = tmp_path_factory.mktemp("leaks")
    made = tape(23)
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    original.write_bytes(b"".join(made.lines))
    redacted_copy(original, copy)
    return made, original, copy


@pytest.mark.costly("a secret of each kind at each place is shared and looked for")
def test_no_planted_secret_is_left_in_any_byte(shared: tuple[Tape, Path, Path]) -> None:
    made, _, copy = shared
    written = copy.read_text("utf-8")
    found = [text for line in written.splitlines() for text in texts(json.loads(line))]
    everything = "\n".join([written, *found])
    everything += "\n" + unquote(everything)
    everything = everything.replace(FILLER, "")  # it would be searched for each of the secrets
    assert len(made.planted) > 1000
    assert [(where, needle) for where, needle in made.planted if needle in everything] == []


@pytest.mark.costly("it scans all of them, and their copy")
def test_a_scan_finds_the_secrets_of_the_original_and_none_in_the_copy(shared: tuple[Tape, Path, Path]) -> None:
    _, original, copy = shared
    assert list(likely_secrets(Capture(copy), personal=True)) == []
    assert len(list(likely_secrets(Capture(original)))) > 800


def test_the_copy_is_a_sound_capture_with_the_same_records(shared: tuple[Tape, Path, Path]) -> None:
    made, _, copy = shared
    inspection = inspect_file(copy)
    assert (inspection.state, inspection.is_redacted) == ("complete", True)
    before = [json.loads(line) for line in made.lines]
    after = [json.loads(line) for line in copy.read_text("utf-8").splitlines()]
    assert [(one["seq"], one["rec"], one["t_ns"]) for one in after] == [
        (one["seq"], one["rec"], one["t_ns"]) for one in before
    ]


def test_another_share_has_other_pseudonyms(secret_rules: None, tmp_path: Path) -> None:
    made = Tape(29)
    made.header()
    made.others()
    original, copies = tmp_path / "original.mcpcap", [tmp_path / "one.mcpcap", tmp_path / "two.mcpcap"]
    original.write_bytes(b"".join(made.lines))
    for copy in copies:
        redacted_copy(original, copy)
    first, second = (
        {word for word in path.read_text("utf-8").split('"') if word.startswith(("hmac:", "user-", "host-"))}
        for path in copies
    )
    assert len(first) > 100
    assert first & second == set()
