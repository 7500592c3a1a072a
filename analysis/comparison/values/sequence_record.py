"""What the aspect `sequence` observes: the calls of a side in the order of their requests, without repetitions."""

from msgspec import Struct

from analysis.comparison.change import Place


class CallName(Struct, array_like=True, frozen=True):
    """What is called, and by which side."""

    sender: str
    method: str
    """Untrusted text, truncated."""
    name: str
    """The tool, prompt or URI, truncated; empty if the request names none. Untrusted text."""


class CallRun(Struct, array_like=True, gc=False):
    """A call, or several of the same name in a row."""

    call: int
    """The index of what is called in `SequenceRecord.calls`."""
    times: int
    is_concurrent: bool
    """Whether it was in flight together with another call, so that their order means nothing."""
    capture: int
    session: int
    frame: int


class SequenceRecord(Struct):
    """The calls of a side."""

    captures: list[str]
    calls: list[CallName]
    """Everything that is called, once."""
    counts: list[int]
    """How often each of `calls` is made."""
    runs: list[CallRun]
    """Sessions one after another; in each, in the order of the requests."""
    is_cut: bool = False
    """Whether there are more calls than `runs` has."""
    uncounted: int = 0
    """How many calls are in no count, because too many different things are called."""

    def place(self, run: CallRun) -> Place:
        """Returns the place of the first request of a run."""
        return Place(self.captures[run.capture], run.session, run.frame)
