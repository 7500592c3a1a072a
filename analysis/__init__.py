"""Analysis of captures: turns frames into messages, exchanges, sessions and findings.

Imports `captures` but nothing from `mcpproxy`; never raises because of its input; loads no module until a name is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.checking.checker import Checker
    from analysis.conversation.exchange import Exchange, IdState, Outcome
    from analysis.conversation.fold import Fold
    from analysis.conversation.message import MISSING, Id, Invalid, Message, Notification, Request, Response, messages
    from analysis.conversation.session import Peer, Seen, Session
    from analysis.rules.finding import Finding, Level

    # Not in __all__: there, `from analysis import *` would replace the builtin.
    from analysis.store.open import open as open  # noqa: A004 - callers write `analysis.open(…)`

__all__ = [
    "MISSING",
    "Checker",
    "Exchange",
    "Finding",
    "Fold",
    "Id",
    "IdState",
    "Invalid",
    "Level",
    "Message",
    "Notification",
    "Outcome",
    "Peer",
    "Request",
    "Response",
    "Seen",
    "Session",
    "messages",
]

_HOME = {
    "analysis.checking.checker": ("Checker",),
    "analysis.rules.finding": ("Finding", "Level"),
    "analysis.conversation.fold": ("Fold",),
    "analysis.conversation.exchange": ("Exchange", "IdState", "Outcome"),
    "analysis.conversation.message": (
        "MISSING",
        "Id",
        "Invalid",
        "Message",
        "Notification",
        "Request",
        "Response",
        "messages",
    ),
    "analysis.conversation.session": ("Peer", "Seen", "Session"),
    "analysis.store.open": ("open",),
}


def __getattr__(name: str) -> Any:
    """Load the module that holds `name` on first use."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
