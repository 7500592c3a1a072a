"""Findings: what rules report about frames of a capture. Findings are derived, never stored in a capture."""

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from analysis.conversation.call import GuessedRequest, ProbableAnswer

Blames: TypeAlias = Literal["client", "server", "transport", "unknown"]
"""The side at fault."""


GUESS_PREFIX: Final = "; probably "
"""The start of a guess at the end of a finding's message. A guess explains the fault; baselines ignore it."""


class Level(IntEnum):
    """How bad a finding is. Levels can be compared."""

    NOTE = 1
    """Legal, but worth knowing."""
    WARNING = 2
    """Something that should not happen, or is very suspicious."""
    ERROR = 3
    """Something that the revision in force forbids."""

    def __str__(self) -> str:
        """Returns the level in lower case, as in output and JSON."""
        return self.name.lower()


class Impact(IntEnum):
    """What a violation breaks for the users of client and server. Impacts can be compared.

    Impacts rank findings of different rules: a lost connection comes before a missing hint. A level only says how
    clearly something is forbidden; levels rank findings of the same impact.
    """

    HINT = 1
    """Nothing immediate: a peer or user gets less information than would be helpful."""
    COST = 2
    """A peer or user waits, or pays, for nothing."""
    WRONG = 3
    """Something false is shown, believed or acted on."""
    MESSAGE = 4
    """A message is lost or refused."""
    SECURITY = 5
    """Someone gains access to data or actions that are not theirs."""
    CONNECTION = 6
    """Client and server cannot connect, or lose their connection."""

    def __str__(self) -> str:
        """Returns the impact in lower case, as in JSON."""
        return self.name.lower()


class Finding(NamedTuple):
    """One finding of a rule."""

    rule: str
    """The id of the rule, such as `id/unknown-response`."""
    level: Level
    blames: Blames
    session: int
    """The number of the session in the capture, from 1; 0 if the finding belongs to no session."""
    frame: int
    """The number of the record that shows it."""
    message: str
    """What is wrong, in a sentence. Untrusted text in it is truncated, but not yet safe to print."""
    related: tuple[int, ...] = ()
    """The numbers of other records that prove it."""
    pointer: str = ""
    """The place in the frame's message, a JSON Pointer (RFC 6901); empty for the whole message."""
    source: str = ""
    """The source of the requirement: a page of the specification, or an RFC."""
    t_ns: int = 0
    """The time of `frame`."""
    item: int | None = None
    """The position of the message in its batch, or on its line."""
    method: str = ""
    """The method of the message, or of its request if it is a response; may be empty. The text is untrusted, and
    truncated."""
    more: int = 0
    """The number of findings of the rule about the message that are only counted; the last reported finding has it."""

    @property
    def finding_count(self) -> int:
        """Returns how many findings this one counts as: itself and those that are only counted."""
        return 1 + self.more


def with_guess(message: str, guess: "GuessedRequest | ProbableAnswer | None") -> str:
    """Returns the message of a finding, followed by the guess that explains it if there is one."""
    return message if guess is None else f"{message}; {guess.text}"
