"""Change text: a change on one line of a list, beginning with what tells it from those next to it."""

from collections.abc import Sequence
from typing import Final

from analysis.comparison.change import Change
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells, fit_end, fit_ends
from mcpproxy.wording.changes import message_text
from mcpproxy.wording.spans import Span, fit_spans

_QUOTES: Final = frozenset("`'\"")
"""What surrounds names in a sentence."""
_GAP: Final = "  "


def change_spans(change: Change, width: int) -> Sequence[Span]:
    """Returns how often a change was found, its place if the sentence names nothing, and the sentence; sanitised.

    Of a place that is too long, the end is shown; of a sentence, the beginning and the end.

    Args:
        change: the change.
        width: the most cells.
    """
    once = change._replace(times=1)
    times = f"×{change.times:,}{_GAP}" if change.times > 1 else ""
    cells_left = max(1, width - cells(times))
    spans = [Span(times, "accent")] if times else []
    sentence = message_text(once._replace(pointer=""))
    place = sanitise(change.pointer, None)
    if not place or not _QUOTES.isdisjoint(sentence):
        whole = message_text(once)
        spans.append(Span(whole if cells(whole) <= cells_left else fit_ends(sentence, cells_left)))
        return fit_spans(spans, width)[0]
    place = fit_end(place, max(cells_left // 2, cells_left - cells(_GAP + sentence)))
    spans += [Span(place, "accent"), Span(_GAP + fit_ends(sentence, cells_left - cells(place + _GAP)))]
    return fit_spans(spans, width)[0]
