"""The names of requests, ids, revisions and peers as text."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.message import Id, Request
from analysis.conversation.session import Peer
from analysis.protocol.extensions import EXTENSION_METHODS
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.values import MAX_EXCERPT_CHARS, string

MAX_REVISIONS: Final = 4
"""The most revisions of a capture that are named; there are hardly more than two."""
MAX_ID_CELLS: Final = 16
"""The most cells of an id."""

NAME_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "tools/call": ("name",),
    "prompts/get": ("name",),
    "resources/read": ("uri",),
    "resources/subscribe": ("uri",),
    "resources/unsubscribe": ("uri",),
    "completion/complete": ("ref", "name"),
    "logging/setLevel": ("level",),
    "tasks/get": ("taskId",),
    "tasks/result": ("taskId",),
    "tasks/cancel": ("taskId",),
    **{name: (method.name_member,) for name, (_, method) in EXTENSION_METHODS.items() if method.name_member},
}
"""The path of the member that says what a request is about, by method."""


def id_text(id_: Id | None) -> str:
    """An id after a space, as in ` #7` or ` #"7"`, or an empty string if there is none."""
    return "" if id_ is None else fit(f" #{sanitise(id_.text, 64)}", MAX_ID_CELLS)


def name_of(request: Request) -> str:
    """The tool, prompt or resource that a request concerns, if it names one."""
    return sanitise(string(request.params, *NAME_PATHS.get(request.method, ())), MAX_EXCERPT_CHARS)


def revisions_text(revisions: Iterable[str]) -> str:
    """The revisions of a capture, each once, in the order of its sessions: `2025-11-25, 2026-07-28`."""
    texts = list(dict.fromkeys(sanitise(revision, 40) for revision in revisions))
    hidden_count = len(texts) - MAX_REVISIONS
    return ", ".join([*texts[:MAX_REVISIONS], *([f"and {hidden_count:,} more"] if hidden_count > 0 else [])])


def peer_text(peer: Peer) -> str:
    """The name and version of a peer."""
    return sanitise(peer.text.rstrip(), 60)
