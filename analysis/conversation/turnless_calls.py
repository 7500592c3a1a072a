"""Turnless calls: how many calls of tools name no turn, by client.

A client that names turns in some of its calls may send others without any id. These are its calls as well: they are
counted under the name by which its users call it, if the name that it gives itself has just that one meaning.
`turn_figures.CLIENTS_SQL` counts the same in SQL.
"""

from collections import Counter
from typing import Final

from analysis.conversation.call import Call
from analysis.conversation.turns import key_of

MAX_CLIENTS: Final = 1_000
"""The most clients that are told apart; the calls of others count as those of a client without a name."""


class TurnlessCalls:
    """The calls of tools that name no turn."""

    def __init__(self) -> None:
        """Start without calls."""
        self._known_clients: dict[str, set[str]] = {}
        """The clients that are known by their ids, by the name that the client gives itself."""
        self._counts: Counter[tuple[str, str | None]] = Counter()

    def add(self, call: Call) -> None:
        """Process a call, whether or not it names a turn."""
        if call.request.method != "tools/call" or call.request.sender != "client":
            return
        ids, session = call.client_ids, call.session
        name = "" if session is None or session.client is None else session.client.name or ""
        if name not in self._known_clients and len(self._known_clients) >= MAX_CLIENTS:
            name = ""
        known_clients = self._known_clients.setdefault(name, set())
        if ids.client is not None:
            known_clients.add(ids.client)
        if key_of(ids) is None:
            self._counts[name, ids.client] += 1

    def by_client(self) -> dict[str, int]:
        """Returns how many calls each client made, by its name; the empty name is for clients without one."""
        counts: Counter[str] = Counter()
        for (name, known_client), count in self._counts.items():
            meanings = self._known_clients[name]
            counts[known_client or (next(iter(meanings)) if name and len(meanings) == 1 else name)] += count
        return dict(counts)
