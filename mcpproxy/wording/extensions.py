"""What lines and pages say about methods of extensions: which extension defines them, or that they are unknown."""

from collections.abc import Mapping
from typing import Final

from analysis.conversation.message import Side
from analysis.protocol.extensions import (
    EXTENSIONS,
    KNOWN_METHODS,
    Extension,
    extension_named_by,
    extension_of_namespace,
    is_foreign,
)
from analysis.protocol.methods import UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import REVISIONS
from mcpproxy.sanitise import sanitise

NOT_JUDGED: Final = "[not judged]"
"""Comes before the text of a request or notification whose method is not known, so that no rule judges its content."""
_MAX_NAMES: Final = 3
"""The maximum number of unknown extensions that are named."""
_MAX_NAME_CHARS: Final = 60


def is_unknown(method: str) -> bool:
    """Whether neither a revision nor a known extension defines a method, or reserves its name for itself.

    A missing prefix does not make it unknown.
    """
    return (
        method not in KNOWN_METHODS
        and method not in UNPREFIXED_NOTIFICATIONS
        and extension_of_namespace(method) is None
    )


def with_mark(text: str, method: str) -> str:
    """Returns the text of a request or notification, with a mark if its method is unknown."""
    return f"{NOT_JUDGED} {text}".rstrip() if is_unknown(method) else text


def extension_name(extension: Extension) -> str:
    """Returns the name of an extension and its identifier, and whether it is a draft."""
    draft = ", a draft" if extension.status == "draft" else ""
    return f"{extension.title} ({extension.identifier}){draft}"


def known_or_unknown(identifier: str) -> str:
    """Returns the title of a declared extension or, if it is not known, its identifier, sanitised."""
    extension = EXTENSIONS.get(identifier)
    return f"{sanitise(identifier, _MAX_NAME_CHARS)} (unknown)" if extension is None else extension.title


def extension_text(method: str, rank: int | None, declarations: Mapping[str, set[Side]]) -> str:
    """Returns what the page of a message says about the extension of its method; empty for methods of the core.

    Args:
        method: the method of the request or notification.
        rank: the rank of its revision; None if it is unknown.
        declarations: the unknown extensions that are declared in the session, and the sides that declare them.
    """
    if is_unknown(method):
        if declarations and is_foreign(method):
            return f"perhaps of {_declared_text(declarations)}: not known, so not judged"
        return "unknown: no revision or known extension defines this method, so it is not judged"
    owner = extension_of_namespace(method)
    if owner is not None:
        return f"not defined by {extension_name(owner)}"
    extension = extension_named_by(method, rank)
    if extension is None:
        return ""
    is_outside = rank is not None and not extension.revisions.includes(rank)
    return extension_name(extension) + (f", which {REVISIONS[rank or 0]} does not have" if is_outside else "")


def _declared_text(declarations: Mapping[str, set[Side]]) -> str:
    """Returns the names of unknown extensions, and who declares them."""
    names = [sanitise(name, _MAX_NAME_CHARS) for name in list(declarations)[:_MAX_NAMES]]
    if len(declarations) > _MAX_NAMES:
        names.append("another")
    sides = set().union(*declarations.values())
    who = "client and server declare" if len(sides) > 1 else f"the {min(sides)} declares"
    return f"{', '.join(names[:-1])} or {names[-1]}, which {who}" if names[1:] else f"{names[0]}, which {who}"
