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
    """Searches the frames and other records of a capture; yields them in order, with the damage between them.

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
        made: list[Replacement] = []
        is_parsed = False
        if isinstance(item, Frame):
            if not is_clean(item):
                redacted = frames.frame(
                    item.raw, item.dir, item.unit, whole=item.whole, is_partial=item.is_partial, event=item.event
                )
                made, is_parsed = redacted.replacements, not redacted.unparsed
            texts = [text for text in (item.event_id, item.event) if text]
        else:
            texts = _texts(item)
        for text in texts:
            redactor.text(text, made)
        yield SearchedItem(item, made, is_parsed)


def _texts(record: Record) -> list[str]:
    """Returns the texts of a record that is not a frame. An HTTP header is one text, with its name."""
    raw = raw_bytes(record.members)
    if raw is not None:
        return [raw.decode("utf-8", "replace")]
    texts: list[str] = []
    waiting: list[object] = [record.members]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
            texts += [f"{name}: {of}" for name, of in value.items() if isinstance(of, str)]
        elif isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value):
            texts.append(f"{value[0]}: {value[1]}")
        elif isinstance(value, list):
            waiting += value
    return texts
