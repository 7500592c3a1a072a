"""How `mcpproxy export` interprets a name: as the file of a format, as a folder, or as neither."""

import re
from pathlib import Path

import pytest

from analysis.filter import parse
from mcpproxy.cli.export import _ambiguous_output_error, _format_name_error, _format_of, parser

MEANT = {
    "a.har": "har",
    "b.HAR": "har",
    "c.md": "markdown",
    "new/d.duckdb": "duckdb",
    "v1.2": "parquet",
    "2026.11.20": "parquet",
    "there.d": "parquet",
    "new.d/": "parquet",
    "tables": "parquet",
}
LIKE_A_FILE = ("a.json", "a.csv", "a.jsonl", "a.parquet", "a.html", "a.mcpcap", "new.d")


def format_of(name: str, *words: str) -> tuple[str, str | None]:
    """Returns the format, and what is unclear about the name."""
    options = parser().parse_args(words)
    options.format = _format_of(options)
    options.output = options.output or options.capture[0]
    return options.format, _ambiguous_output_error(options)


def test_the_ending_of_the_name_chooses_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.d").mkdir()
    for name, form in MEANT.items():
        assert format_of(name, "-o", name, "demo") == format_of(name, name, "demo") == (form, None), name


def test_a_name_like_that_of_another_file_needs_a_format() -> None:
    for name in LIKE_A_FILE:
        for words in (["-o", name, "demo"], [name, "demo"]):
            form, problem = format_of(name, *words)
            assert form == "parquet"
            assert problem is not None, name
            told = f"{name} looks like the name of a file, but its ending does not determine a format"
            assert problem.startswith(told), name


def test_the_name_of_a_format_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, form in (("har", "har"), ("perfeto", "perfetto"), ("CSV", "csv")):
        assert f"--format {form} -o OUT" in (_format_name_error(name) or ""), name
    Path("otlp").mkdir()
    assert [name for name in ("otlp", "har/", "market", "out") if _format_name_error(name)] == []


def test_the_filter_in_the_help_is_one() -> None:
    (example,) = re.findall(r"such as (\w+:\w+)", " ".join(parser().format_help().split()))
    assert "name" in parse(example).keys
