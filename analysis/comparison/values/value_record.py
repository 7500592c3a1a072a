"""What the aspect `values` observes: the normalised results of each request, in order, within bounds."""

from msgspec import Struct, field

from analysis.comparison.change import Place


class StoredResult(Struct, array_like=True, gc=False):
    """A normalised result; each is stored once."""

    digest: str
    """The digest of the normalised result, in hexadecimal."""
    text: str | None
    """The normalised result as canonical JSON; None if it is too large to keep."""
    passed: tuple[tuple[int, int], ...]
    """What was passed over in it: the index of each rule in `ValuesRecord.rules`, with the number of values."""


class Answer(Struct, array_like=True, gc=False):
    """A result of a request, or several equal ones in a row."""

    result: int
    """The index of the result in `ValuesRecord.results`."""
    times: int
    """How many equal results came in a row."""
    capture: int
    """The index of the capture in `ValuesRecord.captures`."""
    session: int
    frame: int
    varied: bytes
    """A checksum of each value that was passed over, in the order of `StoredResult.passed`, as far as they fit."""


class RequestAnswers(Struct):
    """The results of all calls with equal arguments, in the order in which their requests were sent."""

    method: str
    """Untrusted text, truncated."""
    name: str
    """The tool, prompt or URI, truncated; empty if the request names none. Untrusted text."""
    answers: list[Answer] = field(default_factory=list)


class RepeatedCursor(Struct):
    """Pages that have the cursor with which they were requested."""

    place: Place
    """The first such page."""
    times: int = 1


class ValuesRecord(Struct):
    """The results of a side."""

    captures: list[str]
    """The names of the captures."""
    rules: list[str]
    """The rules and pointers that passed over values."""
    results: list[StoredResult]
    requests: dict[str, RequestAnswers]
    """By `RequestKey.digest`."""
    ceiling: str | None = None
    """The digest from which on no request is kept, because there were too many; see `Sample`."""
    repeated_cursors: dict[str, RepeatedCursor] = field(default_factory=dict)
    """By the subject of the call."""
    dropped: int = 0
    """How many results were dropped, because there were too many."""
    is_redacted: bool = False
    """Whether a capture is a redacted copy, in which other values replace secrets."""

    def place(self, answer: Answer) -> Place:
        """Returns the place of an answer."""
        return Place(self.captures[answer.capture], answer.session, answer.frame)
