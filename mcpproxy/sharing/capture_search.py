"""Searches a whole capture for secrets, without changing it: every frame, and the texts of every other record."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from captures.damage import Damage
from captures.frame import Frame
from captures.reader import Capture, read_frames
from captures.record import Record, raw_bytes
from mcpproxy.sharing.frames import FrameRedactor
from mcpproxy.sharing.redaction import Redactor, Replacement


class SearchedItem(NamedTuple):
    """A frame or another record that was searched."""

    item: Frame | Record
    replacements: list[Replacement]
    """The replacements that a redacted copy would contain."""
    is_parsed: bool
    """Whether it is a frame that was parsed as JSON."""


def searched_items(
    capture: Capture, redactor: Redactor, is_clean: Callable[[Frame], bool] = lambda _: False
) -> Iterator[SearchedItem | Damage]:
    """Search the frames and other records of a capture; yields them in order, with the damage between them.

    Frames that cannot be parsed are searched as plain text.

    Args:
        capture: the capture.
        redactor: finds the secrets.
        is_clean: whether a frame is certain to contain no secret, so that it need not be searched.
    """
    frames = FrameRedactor(redactor, keep_unparsed=True)
    for item in read_frames(capture):
        if isinstance(item, Damage):
            yield item
            continue
        replacements: list[Replacement] = []
        is_parsed = False
        if isinstance(item, Frame):
            if not is_clean(item):
                redacted_frame = frames.redact_frame(
                    item.raw, item.dir, item.unit, whole=item.whole, is_partial=item.is_partial, event=item.event
                )
                replacements, is_parsed = redacted_frame.replacements, not redacted_frame.unparsed_reason
            texts = [text for text in (item.event_id, item.event) if text]
        else:
            texts = _texts(item)
        for text in texts:
            redactor.redact_text(text, replacements)
        yield SearchedItem(item, replacements, is_parsed)


def _texts(record: Record) -> list[str]:
    """Returns the texts of a record that is not a frame. An HTTP header is one text, with its name."""
    raw = raw_bytes(record.members)
    if raw is not None:
        return [raw.decode("utf-8", "replace")]
    texts: list[str] = []
    pending: list[object] = [record.members]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            pending += value.values()
            texts += [f"{name}: {text}" for name, text in value.items() if isinstance(text, str)]
        elif isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
            texts.append(f"{value[0]}: {value[1]}")
        elif isinstance(value, list):
            pending += value
    return texts
