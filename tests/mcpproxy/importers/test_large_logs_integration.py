"""Large logs take little memory, and time in proportion to their size."""

from pathlib import Path
from typing import Final

import pytest

from mcpproxy.importers.form import forms
from tests.bench.imports import WHOLE_MB, cost_of, write_log

STREAMED: Final = [name for name in forms() if name not in WHOLE_MB]
"""Forms that are read line by line."""
MAX_RESIDENT_MB: Final = 200
"""Python and the program take 50 of these."""
MILLION_S: Final = 30
"""Seconds of CPU time for a million lines; the machine may be ten times slower."""


@pytest.mark.costly("starts a process for each form")
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    for name in STREAMED:
        log = tmp_path / f"{name}.log"
        write_log(name, log, 3_000_000)
        cost = cost_of(name, log)
        assert (cost.code, cost.resident_mb < MAX_RESIDENT_MB) == (0, True), cost


@pytest.mark.soak
@pytest.mark.parametrize("name", STREAMED)
def test_a_million_lines_are_imported_in_half_a_minute(name: str, tmp_path: Path) -> None:
    log = tmp_path / f"{name}.log"
    write_log(name, log, 200_000_000)
    count = log.read_bytes().count(b"\n")
    assert count >= 1_000_000
    cost = cost_of(name, log)
    assert cost.code == 0, cost
    assert cost.resident_mb < MAX_RESIDENT_MB, cost
    assert cost.cpu_s / count * 1_000_000 < 10 * MILLION_S, cost


@pytest.mark.soak
@pytest.mark.parametrize("name", STREAMED)
def test_a_hundred_megabytes_on_one_line_are_left_out(name: str, tmp_path: Path) -> None:
    log = tmp_path / f"{name}.log"
    write_log(name, log, 10_000)
    with log.open("ab") as file:
        file.write(b"x" * 100_000_000 + b"\n")
    cost = cost_of(name, log)
    assert (cost.code, cost.resident_mb < 2 * MAX_RESIDENT_MB) == (2, True), cost
