"""Messages between the screen of a comparison and the process that compares.

The process keeps the values of the changes and sends them one by one, when they are shown: a comparison can have
thousands of changes, each with two values of megabytes.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from analysis.child_process import as_json
from analysis.comparison.change import Change, Comparison, Place
from analysis.comparison.kind import Severity
from analysis.comparison.kinds.table import KINDS
from mcpproxy.wording.aligned_json import AlignedLine, aligned_lines
from mcpproxy.wording.change_lines import worded_line
from mcpproxy.wording.changes import value_text

MAX_CHANGES: Final = 10_000
"""The most changes that are sent; the worst come first."""
MAX_OTHER_ROWS: Final = 2_000
"""The most rows of any other list that are sent."""
MAX_SENT_CHARS: Final = 2_000
"""The most characters of a text of a change."""
MAX_DETAIL_LINES: Final = 2_000
"""The most lines of two values next to each other."""
MAX_DETAIL_CHARS: Final = 400_000
"""The most characters of these lines."""
MAX_WITNESS_CHARS: Final = 4_000
"""The most characters of a witness."""


class ChangeDetail(NamedTuple):
    """What the detail of a change shows in addition to its row."""

    number: int
    """The number of the change in the comparison, from 0."""
    lines: tuple[AlignedLine, ...]
    """The values of both sides; empty if it has none."""
    is_whole: bool
    """Whether these are all lines."""
    witness: str
    """The witness as JSON on one line; empty if there is none."""


class Totals(NamedTuple):
    """How many rows each list has, sent or not."""

    changes: int
    gaps: int
    latencies: int
    ignored: int


class ChangeMessage(NamedTuple):
    """A change without its values."""

    kind_id: str
    subject: str
    message: str
    pointer: str
    old: Place | None
    new: Place | None
    lowered: Severity | None
    times: int
    unproved: str
    witness_fits_old: bool | None
    """As in `Witness`; None if there is no witness."""


def comparison_messages(comparison: Comparison) -> Iterator[bytes]:
    """Yield the messages that transfer a comparison: first all but its changes, then each change, then the end."""
    totals = Totals(len(comparison.changes), len(comparison.gaps), len(comparison.latencies), len(comparison.ignored))
    gaps = sorted(comparison.gaps, key=lambda gap: not gap.is_failure)[:MAX_OTHER_ROWS]
    head = comparison._replace(
        old=comparison.old._replace(warnings=comparison.old.warnings[:MAX_OTHER_ROWS]),
        new=comparison.new._replace(warnings=comparison.new.warnings[:MAX_OTHER_ROWS]),
        changes=(),
        accepted_changes=(),  # the screens have no baseline
        gaps=tuple(gap._replace(what=gap.what[:MAX_SENT_CHARS], reason=gap.reason[:MAX_SENT_CHARS]) for gap in gaps),
        compared=comparison.compared[:MAX_OTHER_ROWS],
        latencies=comparison.latencies[:MAX_OTHER_ROWS],
        ignored=comparison.ignored[:MAX_OTHER_ROWS],
    )
    yield as_json({"comparison": msgspec.to_builtins(head), "totals": totals})
    for change in comparison.changes[:MAX_CHANGES]:
        yield as_json({"change": msgspec.to_builtins(_change_message(change))})
    yield as_json({"done": True})


def _change_message(change: Change) -> ChangeMessage:
    return ChangeMessage(
        change.kind.id,
        change.subject[:MAX_SENT_CHARS],
        change.message[:MAX_SENT_CHARS],
        change.pointer[:MAX_SENT_CHARS],
        change.old,
        change.new,
        change.lowered,
        change.times,
        change.unproved[:MAX_SENT_CHARS],
        None if change.witness is None else change.witness.fits_old,
    )


def detail_message(number: int, change: Change) -> bytes:
    """Returns the message with the values of a change."""
    line = worded_line(change)
    lines, is_whole = (
        ([line], True) if line is not None else aligned_lines(change.before, change.after, MAX_DETAIL_LINES)
    )
    kept_lines, characters = list[AlignedLine](), 0
    for line in lines:
        characters += len(line.old or "") + len(line.new or "")
        if characters > MAX_DETAIL_CHARS:
            is_whole = False
            break
        kept_lines.append(line)
    witness = "" if change.witness is None else value_text(change.witness.value, MAX_WITNESS_CHARS)
    return as_json({"detail": (number, kept_lines, is_whole, witness)})


def read_head(message: dict[str, Any]) -> tuple[Comparison, Totals]:
    """Returns a comparison without its changes, and how many rows its lists have.

    Raises:
        LookupError, TypeError, ValueError: the message is invalid.
    """
    return msgspec.convert(message["comparison"], Comparison), msgspec.convert(message["totals"], Totals)


def read_change(message: dict[str, Any]) -> ChangeMessage:
    """Returns a change.

    Raises:
        LookupError, TypeError, ValueError: the message is invalid.
    """
    change = msgspec.convert(message["change"], ChangeMessage)
    if change.kind_id not in KINDS:
        raise LookupError(change.kind_id)
    return change


def read_detail(message: dict[str, Any]) -> ChangeDetail:
    """Returns the detail of a change.

    Raises:
        LookupError, TypeError, ValueError: the message is invalid.
    """
    return msgspec.convert(message["detail"], ChangeDetail)
