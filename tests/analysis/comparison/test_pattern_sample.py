"""Texts for patterns match them; other patterns have none."""

import re

from analysis.comparison.schemas.pattern_sample import (
    MAX_PATTERN_CHARS,
    MAX_SAMPLE_CHARS,
    sample_of,
    sample_with_length,
)


def test_samples_match() -> None:
    for pattern in (
        "^a$",
        "^[a-z]+$",
        "^proj_[0-9]{4}$",
        r"^\d{4}-\d{2}-\d{2}$",
        "^(?:https?|ftp)://[^/]+/.*$",
        r"^v?\d+(\.\d+)*$",
        "^[A-Z]{2,5}-[0-9]+?$",
        r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$",
        "^(a|b)(c|d)$",
        "^[]a]$",
        "^[^a]$",
        "x{3}",
        "^$",
        "",
    ):
        sample = sample_of(pattern)
        assert sample is not None, pattern
        assert re.search(pattern, sample), (pattern, sample)


def test_unusual_patterns_have_no_sample() -> None:
    for pattern in (
        "(?=a)",
        "(",
        ")",
        "[",
        "\\",
        r"\1",
        "a{",
        "a{b}",
        "(?<name>a)",
        "a" * (MAX_PATTERN_CHARS + 1),
        "(" * 500,
    ):
        assert sample_of(pattern) is None, pattern


def test_samples_are_short() -> None:
    for pattern in ("a{1000000000}", "(a{100}){100}", "((((a{99}){99}){99}){99})"):
        sample = sample_of(pattern)
        assert sample is None or len(sample) <= MAX_SAMPLE_CHARS


def test_a_repetition_fills_a_length() -> None:
    for pattern, length in (
        ("^[a-z]+$", 64),
        ("^[A-Z]{2}-[0-9]+$", 12),
        ("^[a-z]{2,10}$", 10),
        ("^[a-z]{3,}$", 9),
        ("^(ab)*c$", 7),
        ("^[a-z][a-z0-9-]*$", MAX_SAMPLE_CHARS),
    ):
        sample = sample_with_length(pattern, length)
        assert sample is not None, pattern
        assert re.search(pattern, sample), (pattern, sample)
        assert len(sample) == length, (pattern, sample)
    for pattern, length in (
        ("^a$", 5),
        ("^(ab)*$", 5),
        ("^[a-z]{2,10}$", 11),
        ("^[a-z]+$", MAX_SAMPLE_CHARS + 1),
        ("^[a-z]+$", 10**30),
        ("(", 3),
    ):
        assert sample_with_length(pattern, length) is None, pattern
