"""A comparison that failed never reads as a clean one: `compare` exits with 2 and says why, in every format."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.comparison.planted import Line, edited, rows, write
from tests.mcpproxy.cli.typed import mcpproxy
from tests.rows import row

LISTS = {
    "tools": ("tools 1", "tools 2"),
    "resources": ("resources 1", "resources 2"),
    "resource templates": ("templates",),
    "prompts": ("prompts",),
}
"""The labels of the responses with each list, in the conversation on stdio."""
MORE = {"at": "/result/nextCursor", "value": "more"}
FORMATS = ("text", "json", "markdown", "junit", "sarif", "github")


def _compare(*arguments: str | Path) -> tuple[int, str, str]:
    done = mcpproxy("compare", "--no-findings", "--fail-on", "never", *arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _without(base: list[Line], *labels: str) -> list[Line]:
    return edited(base, [{"drop": label} for label in labels])


def _failing(base: list[Line]) -> Iterator[tuple[str, str, list[Line]]]:
    """Yields what is wrong with one side, what is due on stderr, and the conversation."""
    for name, labels in LISTS.items():
        last = labels[-1]
        yield f"{name} not listed", name, _without(base, *labels, *(f"{label} request" for label in labels))
        yield f"{name} cut", name, edited(base, [{"in": last, **MORE}])
        yield f"{name} unanswered", name, _without(base, last)
        refusal = {"in": last, "at": "/error", "value": {"code": -32000, "message": "no"}}
        yield f"{name} refused", name, edited(base, [{"in": last, "at": "/result"}, refusal])
        broken: dict[str, Any] = {"in": last, "at": "/result", "value": {"tools": 7}}
        yield f"{name} not a list", name, edited(base, [broken])
    yield "killed within the list of tools", "tools", base[: [line["label"] for line in base].index("tools 1") + 1]
    yield "nothing but a handshake", "everything", base[:3]
    yield "no message", "everything", []


@pytest.mark.costly("46 comparisons by the command")
def test_each_way_to_fail_is_2_on_either_side(tmp_path: Path) -> None:
    base = rows("stdio")
    whole = write(tmp_path / "whole.mcpcap", base, "stdio")
    for what, due, conversation in _failing(base):
        other = write(tmp_path / "other.mcpcap", conversation, "stdio")
        for sides in ((whole, other), (other, whole)):
            with row(what, sides[0].stem):
                code, stdout, stderr = _compare(*sides)
                assert code == 2
                assert any(line.startswith(f"mcpproxy: not compared: {due}: ") for line in stderr.splitlines())
                assert "othing changed" not in stdout


def test_what_cannot_be_read_is_2_and_has_no_result(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.mcpcap", rows("stdio"), "stdio")
    lines = whole.read_bytes().splitlines(keepends=True)
    (tmp_path / "text.mcpcap").write_text("no capture\n")
    (tmp_path / "nothing.mcpcap").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop.mcpcap").symlink_to("loop.mcpcap")
    (tmp_path / "damaged.mcpcap").write_bytes(b"".join([*lines[:9], lines[9].replace(b'"', b"'", 4), *lines[10:]]))
    assert mcpproxy("compare", "--save", tmp_path / "saved.json", whole).returncode == 0
    saved = (tmp_path / "saved.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(saved[: len(saved) // 2])
    (tmp_path / "edited.json").write_bytes(saved.replace(b"Finds books", b"Loses books", 1))
    for name in ("text.mcpcap", "nothing.mcpcap", "empty", "loop.mcpcap", "absent.mcpcap", "cut.json", "edited.json"):
        with row(name):
            code, stdout, stderr = _compare(tmp_path / name, whole)
            assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    for sides in ((whole, tmp_path / "damaged.mcpcap"), (tmp_path / "damaged.mcpcap", whole)):
        code, stdout, stderr = _compare(*sides)
        assert code == 2
        assert "othing changed" not in stdout
        assert "mcpproxy: not compared: all of the" in stderr


def test_no_format_shows_a_failed_comparison_as_a_clean_one(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.mcpcap", rows("stdio"), "stdio")
    cut = write(tmp_path / "cut.mcpcap", edited(rows("stdio"), [{"in": "prompts", **MORE}]), "stdio")
    for format_ in FORMATS:
        with row(format_):
            code, stdout, stderr = _compare("--format", format_, whole, cut)
            assert code == 2
            assert "mcpproxy: not compared: prompts: " in stderr
            assert "prompts" in stdout
            assert "incomplete" in stdout
            code, clean, stderr = _compare("--format", format_, whole, whole)
            assert (code, stderr) == (0, "")
            assert "incomplete" not in clean


def test_a_side_with_which_nothing_can_be_compared_is_not_saved(tmp_path: Path) -> None:
    base = rows("stdio")
    whole = write(tmp_path / "whole.mcpcap", base, "stdio")
    lines = whole.read_bytes().splitlines(keepends=True)
    (tmp_path / "damaged.mcpcap").write_bytes(b"".join([*lines[:9], *lines[10:]]))
    write(tmp_path / "handshake.mcpcap", base[:3], "stdio")
    write(tmp_path / "silent.mcpcap", [], "stdio")
    for name, reason in (
        ("damaged", "a capture is damaged"),
        ("handshake", "no list and no call of a tool was recorded"),
        ("silent", "it has no message"),
    ):
        with row(name):
            done = mcpproxy("compare", "--save", tmp_path / "saved.json", tmp_path / f"{name}.mcpcap")
            assert (done.returncode, done.stdout) == (2, b"")
            assert f"cannot be saved: {reason}" in done.stderr.decode()
            assert not (tmp_path / "saved.json").exists()


def test_a_recording_that_was_killed_is_in_every_report_and_on_stderr(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.mcpcap", rows("stdio"), "stdio")
    lines = whole.read_bytes().splitlines(keepends=True)
    (tmp_path / "killed.mcpcap").write_bytes(b"".join(lines[:-1]))
    for format_ in FORMATS:
        with row(format_):
            code, stdout, stderr = _compare("--format", format_, whole, tmp_path / "killed.mcpcap")
            assert code == 0
            if format_ != "github":  # annotations are about changes; the log of the job has stderr
                assert "The recording was killed" in stdout
            assert "The recording was killed" in stderr
