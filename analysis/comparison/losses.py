"""Says what a comparison could not see because it is not in the captures, or could not be examined."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, get_args

from analysis.comparison.change import Gap, SideSummary
from analysis.comparison.definitions.definition_lists import DefinitionsRecord
from analysis.comparison.kind import FailOn
from analysis.comparison.session_facts import SessionRecord
from analysis.comparison.side import Side
from captures.gaps import MAX_LOST_RECORDS

ALL_WORDS: Final[frozenset[FailOn]] = frozenset(get_args(FailOn))


class Loss(NamedTuple):
    """One kind of loss on one side."""

    what: str
    """What is lost: `lost records`."""
    clause: str
    """How much of it, and where: `32 records are lost on the new side`."""


def losses(old: SideSummary, new: SideSummary) -> Iterator[Loss]:
    """Yields what is lost on either side, or could not be examined."""
    for word, side in (("old", old), ("new", new)):
        for what, count, one, several in (
            ("lost records", side.lost_records, "record is lost", "records are lost"),
            (
                "what could not be examined",
                side.unexamined,
                "frame could not be examined",
                "frames could not be examined",
            ),
            ("lost HTTP bodies", side.lost_bodies, "HTTP body is lost", "HTTP bodies are lost"),
        ):
            if count:
                number = f"{count:,}" if count < MAX_LOST_RECORDS else f"more than {MAX_LOST_RECORDS - 1:,}"
                yield Loss(what, f"{number} {one if count == 1 else several} on the {word} side")


def loss_gaps(old: SideSummary, new: SideSummary) -> Iterator[Gap]:
    """Yields a gap for each loss: who needs a complete comparison says so with `--fail-on`."""
    for loss in losses(old, new):
        yield Gap(loss.what, loss.clause, is_failure=False, needed_by=ALL_WORDS)


def with_lost_answers(gaps: Sequence[Gap], old: Side, new: Side) -> list[Gap]:
    """Returns the gaps, with failures for what a client asked for if the answer may be among the losses.

    Args:
        gaps: the gaps of the aspects `definitions` and `session`, and any others.
        old: the old side.
        new: the new side.
    """
    result = [*gaps]
    for word, side in (("old", old), ("new", new)):
        if not any(losses(side.summary, side.summary)):
            continue
        reason = f"the answer may be among what is lost, or could not be examined, on the {word} side"
        for what in dict.fromkeys(_unanswered(side)):
            same = [gap for gap in result if gap.what == what or gap.what.startswith(f"{what} of ")]
            if not any(gap.is_failure for gap in same):
                result = [*(gap for gap in result if gap not in same), Gap(what, reason, is_failure=True)]
    return result


def _unanswered(side: Side) -> Iterator[str]:
    """Yields what a client asked the server for without a known answer, as the aspects call it."""
    definitions, session = side.records.get("definitions"), side.records.get("session")
    if isinstance(definitions, DefinitionsRecord):
        for lists in definitions.servers.values():
            for name, listed in lists.items():
                if listed.state == "unanswered":
                    yield name
                elif listed.is_outdated:
                    yield f"newest {name}"
    if isinstance(session, SessionRecord):
        for server in session.servers.values():
            if server.is_unanswered:
                yield f"{'' if server.declaration is None else 'newest '}capabilities and instructions"
