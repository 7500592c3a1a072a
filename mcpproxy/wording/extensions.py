"""What lines and pages say about methods of extensions: which extension defines them, or that they are unknown."""

from typing import Final

from analysis.protocol.extensions import KNOWN_METHODS, Extension, extension_of_method
from analysis.protocol.methods import UNPREFIXED_NOTIFICATIONS

NOT_JUDGED: Final = "[not judged]"
"""Comes before the text of a request or notification whose method is not known, so that no rule judges its content."""


def is_unknown(method: str) -> bool:
    """Whether neither a revision nor a known extension defines a method; a missing prefix does not make it unknown."""
    return method not in KNOWN_METHODS and method not in UNPREFIXED_NOTIFICATIONS


def with_mark(text: str, method: str) -> str:
    """Returns the text of a request or notification, with a mark if its method is unknown."""
    return f"{NOT_JUDGED} {text}".rstrip() if is_unknown(method) else text


def extension_name(extension: Extension) -> str:
    """Returns the name of an extension and its identifier, and whether it is a draft."""
    draft = ", a draft" if extension.status == "draft" else ""
    return f"{extension.title} ({extension.identifier}){draft}"


def extension_text(method: str, rank: int | None) -> str:
    """Returns what the page of a message says about the extension of its method; empty for methods of the core.

    Args:
        method: the method of the request or notification.
        rank: the rank of its revision; None if it is unknown.
    """
    if is_unknown(method):
        return "unknown: no revision or known extension defines this method, so it is not judged"
    extension = extension_of_method(method, rank)
    return "" if extension is None else extension_name(extension)
