"""Analysis of captures: turns frames into messages, exchanges, sessions and findings.

The package imports `captures` but nothing from `mcpproxy`. It never raises because of its input, and loads no module
until one of its names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from analysis.conversation.call import Call, IdState, MessageContext, Outcome
    from analysis.conversation.message import (
        MISSING,
        Id,
        InvalidMessage,
        Message,
        Notification,
        Request,
        Response,
        messages,
    )
    from analysis.conversation.session import Peer, Session
    from analysis.reading import Reading, Step, findings, read
    from analysis.rules.finding import Finding, Level
    from analysis.selection import calls

    # Not in __all__: there, `from analysis import *` would replace the builtin.
    from analysis.store.open import open as open  # noqa: A004 - callers write `analysis.open(…)`

__all__ = [
    "MISSING",
    "Call",
    "Finding",
    "Id",
    "IdState",
    "InvalidMessage",
    "Level",
    "Message",
    "MessageContext",
    "Notification",
    "Outcome",
    "Peer",
    "Reading",
    "Request",
    "Response",
    "Session",
    "Step",
    "calls",
    "findings",
    "messages",
    "read",
]

_NAMES_BY_MODULE = {
    "analysis.reading": ("Reading", "Step", "findings", "read"),
    "analysis.selection": ("calls",),
    "analysis.rules.finding": ("Finding", "Level"),
    "analysis.conversation.call": ("Call", "IdState", "MessageContext", "Outcome"),
    "analysis.conversation.message": (
        "MISSING",
        "Id",
        "InvalidMessage",
        "Message",
        "Notification",
        "Request",
        "Response",
        "messages",
    ),
    "analysis.conversation.session": ("Peer", "Session"),
    "analysis.store.open": ("open",),
}


def __getattr__(name: str) -> Any:
    """Return the object called `name`, and load its module on first use."""
    if name == "Fold":
        warn("analysis.Fold will go in the next version; use analysis.read, which does its work", DeprecationWarning, 2)
        return import_module("analysis.conversation.fold").Fold
    if name == "Seen":
        warn("analysis.Seen will go in the next version; it is analysis.MessageContext now", DeprecationWarning, 2)
        name = "MessageContext"
    if name == "Invalid":
        warn("analysis.Invalid will go in the next version; it is analysis.InvalidMessage now", DeprecationWarning, 2)
        name = "InvalidMessage"
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
