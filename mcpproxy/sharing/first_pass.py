"""The first of the two passes of a share, which collects the values to replace everywhere.

It also notes which frames have nothing to replace, so that the second pass need not parse them again.
"""

from collections.abc import Callable
from typing import Final

from captures.damage import Damage
from captures.frame import Frame
from captures.reader import Capture
from mcpproxy.sharing.capture_search import searched_items
from mcpproxy.sharing.known_values import KnownValues, KnownValueSearch
from mcpproxy.sharing.redaction import Redactor

MAX_NOTED_FRAMES: Final = 1 << 25
"""Frames with a greater number are always parsed. Each of the others takes a byte of memory."""
_UNKNOWN: Final = 0
_CLEAN: Final = 1
_DIRTY: Final = 2


class CleanFrames:
    """The set of frames with nothing to replace, apart from known values."""

    def __init__(self) -> None:
        self._states = bytearray()
        """By frame number: unknown, clean or dirty."""

    def note_frame(self, seq: int, *, is_clean: bool) -> None:
        """Note whether a frame is clean. If two frames have the same number, both must be clean."""
        if not 0 <= seq < MAX_NOTED_FRAMES:
            return
        if seq >= len(self._states):
            self._states.extend(bytes(max(seq + 1, 2 * len(self._states)) - len(self._states)))
        self._states[seq] = max(self._states[seq], _CLEAN if is_clean else _DIRTY)

    def __contains__(self, seq: int) -> bool:
        return 0 <= seq < len(self._states) and self._states[seq] == _CLEAN


class FirstPass:
    """Collects known values and clean frames of a capture before it is copied."""

    def __init__(self) -> None:
        self.values = KnownValues()
        self._clean_frames = CleanFrames()
        self._known_value_search = KnownValueSearch()

    def read(self, capture: Capture, redactor: Redactor, progress: Callable[[int], None]) -> None:
        """Search a capture.

        Args:
            capture: the capture.
            redactor: searches as in the second pass, and adds the secrets that it finds to `values`.
            progress: called with the number of bytes searched so far.
        """
        searched_bytes = 0
        for searched_item in searched_items(capture, redactor):
            if isinstance(searched_item, Damage):
                continue
            item, search = searched_item.item, redactor.search
            if isinstance(item, Frame):
                is_clean = searched_item.is_parsed and not searched_item.replacements and not search.has_decoded
                self._clean_frames.note_frame(item.seq, is_clean=is_clean)
                searched_bytes += len(item.raw)
                progress(searched_bytes)
            search.has_decoded = False
        self._known_value_search = KnownValueSearch(self.values)

    @property
    def known_value_search(self) -> KnownValueSearch:
        """The search for the collected values."""
        return self._known_value_search

    def is_unchanged(self, frame: Frame) -> bool:
        """Whether a frame is certain to stay unchanged. Does not parse the frame."""
        if frame.seq not in self._clean_frames or b"\\u00" in frame.raw:
            return False
        try:
            text = frame.raw.decode()
        except UnicodeDecodeError:
            return False
        return not self._known_value_search.may_occur(text)
