"""Incompleteness: what a capture lacks, in the lines above its traffic: its beginning, records, bodies, its end."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.finding_lines import losses_text
from mcpproxy.wording.counts import begins_text, count_text, guesses_text, unrecorded_text

MAX_ROWS_TO_GAP: Final = 20
"""How many rows after a row that reveals a gap the record of the gap may come."""


def incompleteness_texts(reading: Reading) -> Iterator[str]:
    """Yields what a capture lacks, and what is therefore unknown, each as one line; nothing if it is complete."""
    conversation, index = reading.conversation, reading.index
    capture = conversation.capture
    if capture.begins_at:
        yield begins_text(capture.begins_at)
    if conversation.missing_ranges:
        yield losses_text(conversation.missing_ranges)
    has_torn_end = reading.is_killed and len(index) > 0 and index.kind(len(index) - 1) == "damage"
    damage_count = index.damage_count - has_torn_end
    if damage_count:
        yield f"{count_text(damage_count, 'place')} of the file damaged: records may be missing there"
    if conversation.losses.bodies:
        yield unrecorded_text(conversation.losses.bodies)
    if reading.is_killed and len(index):
        yield f"no end after record {index.entry(len(index) - 1).seq:,}: killed or cut; what came then is missing"
    if capture.guesses:
        yield guesses_text(capture.guesses)
    yield from reading.forgotten


def lost_before(reading: Reading, row: int) -> str:
    """Returns how many records are missing right before a row, or an empty text if none are, or if a row says so.

    The record of a gap says it itself; it may come a little later than a record that reveals the gap.
    """
    index = reading.index
    if not row or index.kind(row) == "damage":
        return ""
    before, seq = index.entry(row - 1).seq, index.entry(row).seq
    # A frame in several parts has the number of one of them, so not every number that is left out is lost.
    ranges = reading.conversation.missing_ranges if seq - before > 1 else ()
    count = sum(loss.missing for loss in ranges if before < loss.first <= loss.last < seq)
    kinds = (index.kind(number) for number in range(row, min(len(index), row + MAX_ROWS_TO_GAP)))
    return f"▲ {count_text(count, 'record')} lost here" if count and "gap" not in kinds else ""
