"""Settings bound the memory of the commands that read, regardless of what a capture holds."""

import sys
from pathlib import Path

import pytest

from tests.heavy import MIB, SHAPES, command, peak, peak_of, write
from tests.mcpproxy.cli.typed import mcpproxy

BUDGET = 300 * MIB
"""The most resident memory."""
BESIDE = 200 * MIB
"""What a process uses in addition to the memory that `--memory` gives to its database."""


@pytest.mark.costly("more than 50,000 requests have to be open at once, and a command reads them")
@pytest.mark.parametrize(
    ("name", "shape", "mib"),
    [
        ("show", "batches", 3),
        *[pytest.param(name, "unanswered", 16, marks=pytest.mark.soak) for name in ("show", "check")],
    ],
)
def test_a_heavy_capture_is_shown_and_checked_in_bounded_memory_and_what_was_forgotten_is_said(
    tmp_path: Path, name: str, shape: str, mib: int
) -> None:
    """Uses the heaviest shapes (`make soak` has all of them); both commands share the code that forgets requests."""
    path = write(tmp_path / "heavy.mcpcap", shape, mib * MIB)
    run = peak(command(name, path), tmp_path)
    assert run.code in (0, 1), (tmp_path / "stderr").read_bytes()[:2000]
    assert run.peak <= BUDGET, f"{name} took {run.peak / MIB:.0f} MiB"
    text = (tmp_path / ("stdout" if name == "show" else "stderr")).read_text()
    assert "requests were forgotten: more than 50,000, or 16 MiB, were open at once" in text
    assert "responses to them count as unknown" in text


def test_the_peak_of_a_process_is_measured(tmp_path: Path) -> None:
    run = peak([sys.executable, "-I", "-S", "-c", "bytes(b'x' * (200 << 20)); raise SystemExit(3)"], tmp_path)
    assert run.code == 3
    assert 200 * MIB < run.peak < 500 * MIB


@pytest.mark.soak  # the suite has the next test instead
@pytest.mark.parametrize("words", [["query", "select count(*) from frames"], ["stats"]], ids=["query", "stats"])
def test_what_is_loaded_to_be_asked_obeys_the_setting(tmp_path: Path, words: list[str]) -> None:
    run_words = [sys.executable, "-P", "-m", "mcpproxy", *words, "--memory", "64M"]
    small, large = (write(tmp_path / f"{mib}.mcpcap", "tools", mib * MIB) for mib in (1, 24))
    alone = peak([*run_words, str(small)], tmp_path)
    assert alone.peak <= BESIDE, f"the process itself took {alone.peak / MIB:.0f} MiB"
    run = peak([*run_words, str(large)], tmp_path)
    assert run.code == 0, (tmp_path / "stderr").read_bytes()[:2000]
    assert run.peak <= BESIDE + 64 * MIB, f"{words[0]} took {run.peak / MIB:.0f} MiB"


@pytest.mark.costly("a capture has to be larger than what a query may take")
@pytest.mark.parametrize(("shape", "mib"), [("giants", 65), pytest.param("large_frames", 24, marks=pytest.mark.soak)])
def test_where_the_setting_is_too_small_a_line_says_what_to_do(tmp_path: Path, shape: str, mib: int) -> None:
    path = write(tmp_path / "large.mcpcap", shape, mib * MIB)
    for words in (["query", "select count(*) from frames"], ["stats"]):
        done = mcpproxy(*words, "--memory", "64M", path, HOME=str(tmp_path))
        (line,) = done.stderr.decode().splitlines()
        assert (done.returncode, done.stdout) == (2, b""), words
        assert "needs more than 64 MiB" in line
        assert line.endswith("raise --memory")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mib", [16, 66, 250])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_heavy_capture_is_shown_and_checked_in_bounded_memory(tmp_path: Path, shape: str, mib: int) -> None:
    path = write(tmp_path / "heavy.mcpcap", shape, mib * MIB)
    for name in ("show", "show --json", "check", "check --json", "ls", "info", "verify", "tui"):
        run = peak_of(name, path, tmp_path)
        assert run.peak <= BUDGET, f"{name} took {run.peak / MIB:.0f} MiB"
