"""Kinds of calls in a capture, numbered. A kind is a side, a method, and the tool, prompt or resource.

A capture can have millions of requests, of few kinds. A hostile capture may have as many kinds as requests, so the
number of kinds and the length of their names are limited.
"""

from typing import Any, Final, NamedTuple, Self

from analysis.conversation.call import Call
from analysis.conversation.message import Side

MAX_CALL_KINDS: Final = 5000
"""How many kinds are distinguished; a side's other kinds count as one."""
MAX_CALL_NAME_CHARS: Final = 256
"""How many characters of a method or name are kept."""


class CallKind(NamedTuple):
    """A kind of request. Its texts are untrusted."""

    side: Side
    """The requesting side."""
    method: str
    name: str | None
    """The tool, prompt or resource that it names, or None."""
    is_catch_all: bool = False
    """Whether it represents all kinds above the limit."""

    @classmethod
    def from_worker(cls, side: Any, method: Any, name: Any, is_rest: Any) -> Self:
        """Parse a kind that the worker has sent, which may be invalid.

        Raises: ValueError: it is not a kind.
        """
        texts = method, "" if name is None else name
        if side not in ("client", "server") or not all(
            isinstance(text, str) and len(text) <= MAX_CALL_NAME_CHARS for text in texts
        ):
            raise ValueError("no kind of requests")
        return cls(side, method, name, bool(is_rest))

    @property
    def is_whole(self) -> bool:
        """Whether its texts are exactly those of the request, and not cut."""
        return (
            not self.is_catch_all
            and len(self.method) < MAX_CALL_NAME_CHARS
            and len(self.name or "") < MAX_CALL_NAME_CHARS
        )

    @property
    def text(self) -> str:
        """How it is shown in a list; unsanitised."""
        arrow = "← " if self.side == "server" else ""
        return f"{arrow}{self.method} {self.name}" if self.name is not None else arrow + self.method

    @property
    def filter_expression(self) -> str | None:
        """The expression that selects requests of this kind and their responses, or None if there is none."""
        if self.is_catch_all:
            return None
        name = "not name:*" if self.name is None else f"name:{pattern(self.name)}"
        return f"method:{pattern(self.method)} {name}"


_CATCH_ALL_KINDS: Final[dict[Side, CallKind]] = {
    side: CallKind(side, "(all others)", None, is_catch_all=True) for side in ("client", "server")
}


class CallKinds:
    """The kinds of requests of one capture, in order of arrival."""

    def __init__(self) -> None:
        self.all: list[CallKind] = []
        self._numbers: dict[CallKind, int] = {}

    def register(self, call: Call) -> int:
        """Returns the number of a call's kind; a new kind gets the next number."""
        request, name = call.request, call.name
        kind = CallKind(
            request.sender, request.method[:MAX_CALL_NAME_CHARS], None if name is None else name[:MAX_CALL_NAME_CHARS]
        )
        number = self._numbers.get(kind)
        return self._add(kind) if number is None else number

    def _add(self, kind: CallKind) -> int:
        if len(self.all) >= MAX_CALL_KINDS:
            kind = _CATCH_ALL_KINDS[kind.side]
            if kind in self._numbers:
                return self._numbers[kind]
        self.all.append(kind)
        self._numbers[kind] = len(self.all) - 1
        return len(self.all) - 1


def pattern(text: str) -> str:
    """Returns a pattern that matches the text or, if that was cut, everything that begins with it.

    A character that the filter box would show as an escape becomes a single-character wildcard.
    """
    is_cut = len(text) >= MAX_CALL_NAME_CHARS
    if text.isprintable() and not is_cut:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        return text if text.replace("/", "").replace("_", "").isalnum() and text.isascii() else f'"{quoted}"'
    plain = "".join(char if char.isalnum() and char.isascii() else "?" for char in text)
    return plain + "*" if is_cut else plain
