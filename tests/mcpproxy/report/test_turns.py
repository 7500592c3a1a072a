"""What `stats` says about turns."""

import pytest

from analysis.store.turn_figures import ClientFigures, TurnFigures
from mcpproxy.report.stats import MIN_WIDTH
from mcpproxy.report.turns import MAX_TURN_ROWS, client_texts, turn_lines
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.spans import Style

TURN = TurnFigures("Codex", "thread", "019a2b3c-3f2a01", "2026-11-30 06:58:12", 14, ["a", "b", "c"], 2, 41_000.0)
CODEX = ClientFigures("Codex", 16, 1, 1, 2)
CLAUDE_CODE = ClientFigures("Claude Code", 9, 1, 0, 9)
SILENT = ClientFigures("gem\x1b[2Jini", 1, 0, 0, 1)


def test_a_turn_is_a_row_and_calls_without_one_are_explained() -> None:
    assert list(turn_lines([TURN], [CODEX, CLAUDE_CODE, SILENT], Style(), UNLIMITED_WIDTH)) == [
        "TURNS                       calls  servers  failed   waiting     first call (UTC)",
        "turn 019a…3f2a01 of Codex      14        3       2    41.0 s  2026-11-30 06:58:12",
        "  calls of a turn: mcpproxy show --all --filter 'turn:*3f2a01'",
        (
            "  12 calls name no turn: 9 of Claude Code (which names only its calls and conversations), 2 of Codex, "
            "1 of gem\\x1b[2Jini"
        ),
    ]
    assert list(turn_lines([], [SILENT], Style(), 100))[1:] == [
        "  no call names its turn",
        "  1 call of gem\\x1b[2Jini names no turn",
    ]


def test_equal_titles_are_told_apart_by_the_conversation() -> None:
    turns = [TURN, TURN._replace(client_session="other"), TURN._replace(turn_id="turn-B")]
    lines = list(turn_lines(turns, [CODEX._replace(turns=3)], Style(), 100))
    assert [" ".join(line.split()[:6]) for line in lines[1:4]] == [
        "turn 019a…3f2a01 of Codex in thread",
        "turn 019a…3f2a01 of Codex in other",
        "turn turn-B of Codex 14 3",
    ]


def test_an_id_that_a_shell_could_act_on_is_in_no_command() -> None:
    lines = list(turn_lines([TURN._replace(turn_id="'; rm -rf ~; '")], [CODEX], Style(), 100))
    assert not any("--filter" in line for line in lines)


def test_turns_of_which_the_end_is_unknown_and_hostile_ids() -> None:
    turn = TURN._replace(turn_id="\x1b]0;x\x07", time=None, waited_ms=None, failed=0)
    _, line, *_ = turn_lines([turn], [CODEX], Style(), UNLIMITED_WIDTH)
    assert line.split() == ["turn", "\\x1b]0;x\\x07", "of", "Codex", "14", "3", "0", "–", "–"]


@pytest.mark.parametrize("width", [MIN_WIDTH, 40, 50, 60, 80, 120])
def test_turns_fit_and_say_how_many_are_left_out(width: int) -> None:
    turns = [TURN] * 30
    lines = list(turn_lines(turns, [CODEX._replace(turns=30), CLAUDE_CODE], Style(), width))
    assert max(map(cells, lines)) <= width
    assert len([line for line in lines if line.startswith("turn")]) == MAX_TURN_ROWS
    assert lines[MAX_TURN_ROWS + 1].startswith("  and 10 more turns")
    assert all("41.0 s" in line for line in lines[1 : MAX_TURN_ROWS + 1])


def test_clients_that_name_anything_are_listed() -> None:
    assert client_texts([CODEX, CLAUDE_CODE, SILENT]) == [
        "Codex: 1 in 1 conversation",
        "Claude Code: 1 conversation",
    ]
