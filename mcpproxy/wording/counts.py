"""Counts with their nouns, and how much is missing in a capture."""

from captures.gaps import MAX_LOST_RECORDS


def lost_text(count: int) -> str:
    """How many records are lost; a capture can claim any number."""
    return (
        f"{count_text(count, 'record')} lost"
        if count < MAX_LOST_RECORDS
        else f"more than {MAX_LOST_RECORDS - 1:,} records lost"
    )


def begins_text(begins_at: int) -> str:
    """Where a capture begins if its first records were deleted, by the number of the first one that is left."""
    return f"begins at record {begins_at:,} (the ring has deleted what came before)"


def unrecorded_text(count: int) -> str:
    """How many bodies that may contain messages are not in a capture."""
    return f"{count_text(count, 'HTTP body', 'HTTP bodies')} missing (not decodable, or not in the import)"


def guesses_text(count: int) -> str:
    """How many sessions are guesses."""
    return f"{count_text(count, 'session')} of clients that cannot be told apart (one address, program and credentials)"


def abandoned_text(count: int, late: int) -> str:
    """How many requests were abandoned, and how many of these answered: `3 requests abandoned (2 answered late)`."""
    return f"{count_text(count, 'request')} abandoned{f' ({late:,} answered late)' if late else ''}"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 tool`, `11 tools`, `1,204 frames`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
