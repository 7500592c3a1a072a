"""The part of `mcpproxy stats` about turns: what each prompt caused, and how many turns each client named."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from analysis.conversation.turns import TurnKey
from analysis.store.turn_figures import ClientFigures, TurnFigures
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.turns import no_turn_text, short_id, turn_pattern, turn_title
from mcpproxy.wording.units import duration, nanoseconds
from mcpproxy.wording.wrapping import wrapped

MAX_TURN_ROWS: Final = 20
"""The most turns on the screen."""
_HEADING: Final = "TURNS"
_COLUMNS: Final = {"calls": 7, "servers": 9, "failed": 8, "waiting": 10, "first call (UTC)": 21}
"""The columns and their widths in cells."""
_DROPPABLE_COLUMNS: Final = ("first call (UTC)", "servers", "calls")
"""The columns that a narrow terminal has no room for, the least important first."""
_MIN_TITLE_CELLS: Final = 30
_MAX_CLIENT_CHARS: Final = 60


def turn_lines(
    turns: Sequence[TurnFigures], clients: Sequence[ClientFigures], style: Style, width: int
) -> Iterator[str]:
    """Yields a line for each turn, and one that says how many calls name none.

    Args:
        turns: the turns, in the order in which to show them; the first of them if there are very many.
        clients: the clients.
        style: the colours.
        width: the width of a line, in cells.
    """
    total = sum(client.turns for client in clients)
    shown = turns[: MAX_TURN_ROWS + (total == MAX_TURN_ROWS + 1)]
    titles = _distinct_titles([TurnKey(turn.client, turn.client_session or "", turn.turn_id) for turn in shown])
    columns = dict(_COLUMNS)
    for name in _DROPPABLE_COLUMNS:
        if width - sum(columns.values()) < _MIN_TITLE_CELLS:
            del columns[name]
    title_width = width - sum(columns.values())
    if width >= UNLIMITED_WIDTH:
        title_width = max(map(cells, [_HEADING, *titles])) + 1
    head = "".join(f"{name:>{column_width}}" for name, column_width in columns.items())
    yield style.paint([Span(f"{_HEADING:<{title_width}}", "accent"), Span(head, "dim")])
    for turn, title in zip(shown, titles, strict=True):
        values = {
            "calls": f"{turn.calls:,}",
            "servers": f"{len(turn.servers):,}",
            "failed": f"{turn.failed:,}",
            "waiting": "–" if turn.waited_ms is None else duration(nanoseconds(turn.waited_ms)),
            "first call (UTC)": turn.time or "–",
        }
        short_title = fit(title, title_width - 1)
        spans = [
            Span(f"{values[name]:>{column_width}}", "bad" if name == "failed" and turn.failed else "plain")
            for name, column_width in columns.items()
        ]
        yield style.paint([Span(short_title + " " * (title_width - cells(short_title))), *spans])
    if not turns:
        yield style.paint([Span("  no call names its turn", "dim")])
    if total > len(shown):
        hint = f"  and {count_text(total - len(shown), 'more turn')} (show them with --json)"
        yield style.paint([Span(fit(hint, width), "dim")])
    if shown and (pattern := turn_pattern(shown[0].turn_id)):
        command = f"mcpproxy show --all --filter 'turn:{pattern}'"
        yield from (
            style.paint([Span(f"  {line}", "dim")]) for line in wrapped(f"calls of a turn: {command}", width - 2)
        )
    text = no_turn_text({client.client or "": client.turnless_calls for client in clients})
    if text:
        yield from (style.paint([Span(f"  {line}", "dim")]) for line in wrapped(text, width - 2))


def _distinct_titles(keys: Sequence[TurnKey]) -> list[str]:
    """Returns the titles of turns, with the conversation where several would look the same."""
    titles = [turn_title(key) for key in keys]
    counts = Counter(titles)
    return [
        f"{title} in {short_id(key.session)}" if counts[title] > 1 and key.session else title
        for key, title in zip(keys, titles, strict=True)
    ]


def hint_lines(style: Style, width: int) -> Iterator[str]:
    """Yields the hint that other captures may have more calls of the turns, for when not all captures are read."""
    text = "captures that are not read may have more calls of these turns; --all reads all"
    yield from (style.paint([Span(f"  {line}", "dim")]) for line in wrapped(text, width - 2))


def client_texts(clients: Sequence[ClientFigures]) -> list[str]:
    """Returns the turns and conversations of each client that names any: `Codex: 14 in 2 conversations`."""
    texts = []
    for client in clients:
        if client.turns or client.conversations:
            name = sanitise(client.client or "(no name)", _MAX_CLIENT_CHARS)
            conversations = count_text(client.conversations, "conversation")
            texts.append(f"{name}: {f'{client.turns:,} in ' if client.turns else ''}{conversations}")
    return texts
