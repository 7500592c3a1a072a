"""Turns, and the ids that a client sends with a call, in words: for all commands, reports and screens.

All text of peers is sanitised.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from analysis.conversation.client_ids import ROWS, SESSION_VARIABLES, ClientIds, IdKind
from analysis.conversation.turns import Turn, TurnKey
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.units import duration

_MAX_SHORT_CHARS: Final = 12
_HEAD_CHARS: Final = 4
_TAIL_CHARS: Final = 6
_MAX_CLIENT_CHARS: Final = 40
_MAX_ID_CHARS: Final = 256
_MAX_CLIENTS: Final = 4
_NOUNS: Final[dict[IdKind, str]] = {"turn": "turns", "call": "calls", "session": "conversations"}


def turn_text(turn: Turn) -> str:
    """Returns what a turn caused: `4 calls on 3 servers, 2 failed, 41.0 s of waiting`."""
    has_waited = any(call.ended_ns is not None for call in turn.calls)
    return extent_text(len(turn.calls), len(turn.servers), turn.failure_count, turn.waited_ns if has_waited else None)


def extent_text(call_count: int, server_count: int, failure_count: int, waited_ns: int | None) -> str:
    """Returns the figures of a turn, or of several, in one line.

    Args:
        call_count: how many calls there were.
        server_count: how many servers they went to.
        failure_count: how many of the calls failed.
        waited_ns: for how long at least one of them was waited for, in ns; None if no wait has ended.
    """
    failures = f"{failure_count:,} failed" if failure_count else ""
    waiting = "" if waited_ns is None else f"{duration(waited_ns)} of waiting"
    calls = f"{count_text(call_count, 'call')} on {count_text(server_count, 'server')}"
    return ", ".join(filter(None, (calls, failures, waiting)))


def turn_title(key: TurnKey) -> str:
    """Returns the name of a turn in a list: `turn 019a…7c3f2a of Codex`."""
    return f"turn {short_id(key.turn)} of {sanitise(key.client, _MAX_CLIENT_CHARS)}"


def short_id(text: str) -> str:
    """Returns an id in a few characters: its first and its last ones, as `019a…7c3f2a`.

    Ids that a client gives one after the other often begin alike: with a time, or with the id of the conversation.
    """
    if len(text) <= _MAX_SHORT_CHARS:
        return sanitise(text)
    return f"{sanitise(text[:_HEAD_CHARS])}…{sanitise(text[-_TAIL_CHARS:])}"


def turn_pattern(turn_id: str) -> str:
    """Returns the pattern of a filter that finds a turn by the end of its id; empty if that cannot be typed safely."""
    is_short = len(turn_id) <= _MAX_SHORT_CHARS
    end = turn_id if is_short else turn_id[-_TAIL_CHARS:]
    if not re.fullmatch(r"[A-Za-z0-9_-]+", end):
        return ""
    return end if is_short else f"*{end}"


def id_facts(ids: ClientIds, *, is_short: bool = False) -> Iterator[Fact]:
    """Yields what a client says about a call: its turn, its conversation, the model's id of the call, and the trace.

    Args:
        ids: the ids that the client gave to the call.
        is_short: whether to shorten them, for a place where they are read and not compared.
    """
    id_text = short_id if is_short else _whole_id
    client = f" of {sanitise(ids.client, _MAX_CLIENT_CHARS)}" if ids.client else ""
    rows = (("turn", ids.turn), ("conversation", ids.session), ("call id", ids.call))
    for name, value in rows:
        if value is not None:
            yield Fact(name, f"{id_text(value)}{client}")
            client = ""
    if ids.trace is not None:
        yield Fact("trace", id_text(ids.trace))


def no_turn_text(call_counts: Mapping[str, int]) -> str:
    """Returns how many calls name no turn: `5 calls name no turn: 3 of agent, 2 of Codex`; empty if there are none.

    Args:
        call_counts: how many calls name none, by client; the empty name is for clients without one.
    """
    counts = sorted(((client, count) for client, count in call_counts.items() if count), key=lambda c: (-c[1], c[0]))
    if not counts:
        return ""
    total = sum(count for _, count in counts)
    verb = "names" if total == 1 else "name"
    if len(counts) == 1:
        client = counts[0][0]
        kinds_text = _named_text(client)
        of_client = f"{count_text(total, 'call')} of {_client_text(client)} {verb} no turn"
        return f"{of_client}: it names only its {kinds_text}" if kinds_text else of_client
    shown = counts[: _MAX_CLIENTS + (len(counts) == _MAX_CLIENTS + 1)]
    parts = []
    for client, count in shown:
        kinds_text = _named_text(client)
        clause = f" (which names only its {kinds_text})" if kinds_text else ""
        parts.append(f"{count:,} of {_client_text(client)}{clause}")
    if len(counts) > len(shown):
        omitted = counts[len(shown) :]
        parts.append(f"and {sum(count for _, count in omitted):,} of {len(omitted):,} more clients")
    return f"{count_text(total, 'call')} {verb} no turn: {', '.join(parts)}"


def _client_text(client: str) -> str:
    return sanitise(client, _MAX_CLIENT_CHARS) if client else "an unnamed client"


def _whole_id(text: str) -> str:
    return sanitise(text, _MAX_ID_CHARS)


def _named_text(client: str) -> str:
    """Returns what a client that knows no turns names instead; empty if it can name turns, or is not known."""
    kinds = {row.kind for row in ROWS if row.client == client}
    if client in SESSION_VARIABLES.values():
        kinds.add("session")
    if not kinds or "turn" in kinds:
        return ""
    return " and ".join(_NOUNS[kind] for kind in sorted(kinds))
