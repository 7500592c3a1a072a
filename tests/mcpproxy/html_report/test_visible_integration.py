"""The page escapes characters that hide, reverse or move text as the terminal does (mcpproxy/sanitise.py)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pytest

import mcpproxy.html_report.page as page
from mcpproxy.sanitise import sanitise

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession

SCRIPT = (page.SOURCE_FOLDER / "visible.js").read_text("utf-8")
BESIDE = ("", "a", "1", "中", "☎", "\u0301", "a" + 9 * "\u0301", "\x1b")
"""What precedes a character: marks and presentations depend on it."""


@pytest.fixture
def session(started: Browser) -> Iterator[CDPSession]:
    with started.new_context() as context:
        yield context.new_cdp_session(context.new_page())


def shown(session: CDPSession, texts: list[str]) -> list[str]:
    """Returns what the page makes of texts, which are sent as numbers because no encoding accepts surrogates."""
    codes = [[ord(char) for char in text] for text in texts]
    call = f"{SCRIPT}\n{codes}.map((codes) => visible(codes.map((code) => String.fromCodePoint(code)).join('')))"
    answer = session.send(
        "Runtime.evaluate",
        {"expression": f"(() => {{ {SCRIPT}; return {call.split(chr(10))[-1]} }})()", "returnByValue": True},
    )
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    made: list[str] = answer["result"]["value"]
    return made


@cache
def assigned() -> list[str]:
    """Returns the assigned characters; the others depend on the Unicode version, and the older version escapes more."""
    chars = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    return [char for char in chars if unicodedata.category(char) not in ("Lo", "So") or ord(char) < 0x3000]


def check(session: CDPSession, before: str, chars: list[str]) -> None:
    """Check that the page and the terminal show these characters alike when another one precedes them."""
    texts = [before + char for char in chars]
    differences = [
        (text, made) for text, made in zip(texts, shown(session, texts), strict=True) if made != sanitise(text, None)
    ]
    assert differences == [], (before, len(differences), [ascii(pair) for pair in differences[:10]])


def test_page_escapes_what_the_terminal_escapes(session: CDPSession) -> None:
    chars = assigned()
    check(session, "", chars)
    # Most characters are shown alike regardless of what precedes them, so a sample of those is enough.
    special = [char for number, char in enumerate(chars) if unicodedata.category(char)[0] in "MC" or number % 40 == 0]
    for before in BESIDE:
        check(session, before, special)


@pytest.mark.soak
def test_page_escapes_what_the_terminal_escapes_beside_all_others(session: CDPSession) -> None:
    for before in BESIDE:
        check(session, before, assigned())


def test_page_joins_the_emoji_that_the_terminal_joins(session: CDPSession) -> None:
    parts = ("👨", "👩🏽", "❤\ufe0f", "a", "\u200d")
    texts = ["\u200d".join(chosen) for count in range(1, 5) for chosen in product(parts, repeat=count)]
    texts += ["👨" + "\u200d👩" * count for count in range(8)]
    differences = [
        (text, made) for text, made in zip(texts, shown(session, texts), strict=True) if made != sanitise(text, None)
    ]
    assert differences == []


def test_private_and_unassigned_characters_are_escaped(session: CDPSession) -> None:
    assert shown(session, ["\ue000", "\U0010fffd", "\U000e0fff", "\ud800x"]) == [
        "\\ue000",
        "\\U0010fffd",
        "\\U000e0fff",
        "\\ud800x",
    ]
