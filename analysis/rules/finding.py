"""Finding: a rule's report about frames of a capture. Findings are derived, never stored in a capture."""

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from analysis.conversation.call import GuessedRequest, ProbableAnswer

Blames: TypeAlias = Literal["client", "server", "transport", "unknown"]
"""Who is responsible."""


GUESS: Final = "; probably "
"""The beginning of a guess at the end of a message: it explains the fault, and is not part of it."""


class Level(IntEnum):
    """How bad a finding is; levels can be compared."""

    NOTE = 1
    """Legal, but worth knowing."""
    WARNING = 2
    """Something that should not happen, or is very suspicious."""
    ERROR = 3
    """Something that the revision in force forbids."""

    def __str__(self) -> str:
        """The level in lower case, as in output and JSON."""
        return self.name.lower()


class Impact(IntEnum):
    """What a violation breaks for the users of client and server; impacts can be compared.

    It ranks findings of different rules, so that a lost connection comes before a missing hint. A level only says how
    clearly something is forbidden; it orders findings of the same impact.
    """

    HINT = 1
    """Nothing immediate: a peer or user gets less information than would help."""
    COST = 2
    """A peer or user waits, or pays, for nothing."""
    WRONG = 3
    """Something false is shown, believed or acted on."""
    MESSAGE = 4
    """A message or an answer is lost, or refused."""
    SECURITY = 5
    """Someone gains access to data or actions that are not theirs."""
    CONNECTION = 6
    """Client and server cannot connect, or lose their connection."""

    def __str__(self) -> str:
        """The impact in lower case, as in JSON."""
        return self.name.lower()


class Finding(NamedTuple):
    """One finding of a rule."""

    rule: str
    """The id of the rule, such as `id/unknown-response`."""
    level: Level
    blames: Blames
    session: int
    """Number of the session in the capture, from 1; 0 if it belongs to none."""
    frame: int
    """Number of the record that shows it."""
    message: str
    """What is wrong, in a sentence. Untrusted text in it is truncated, but not yet safe to print."""
    related: tuple[int, ...] = ()
    """Numbers of other records that prove it."""
    pointer: str = ""
    """The place in the frame's message, a JSON Pointer (RFC 6901); empty for the whole message."""
    source: str = ""
    """The source of the obligation: a page of the specification, or an RFC."""
    t_ns: int = 0
    """The stamp of `frame`."""
    item: int | None = None
    """The position of the message in its batch, or on its line."""
    method: str = ""
    """The method of the message; for a response, that of its request; empty if none. Truncated, untrusted text."""
    more: int = 0
    """Findings of the rule about the message that are only counted; the last reported finding says how many."""

    @property
    def stands_for(self) -> int:
        """How many findings this one counts as: itself, and the ones that are only counted."""
        return 1 + self.more


def with_guess(message: str, guess: "GuessedRequest | ProbableAnswer | None") -> str:
    """The message of a finding, followed by a guess that explains it; unchanged if there is no guess."""
    return message if guess is None else f"{message}; {guess.text}"
