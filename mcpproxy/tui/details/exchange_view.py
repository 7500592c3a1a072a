"""The exchange of a row: how long it took, the request and the response, side by side if there is room."""

from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.on_demand import OnDemandSequence
from mcpproxy.tui.text.rows import row_text
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_SIDE_BY_SIDE_CELLS: Final = 56
"""The minimum width, in cells, to show both sides next to each other: that of a text in a pane of 60 columns."""
MIN_TEXT_CELLS: Final = 8
"""The minimum width of a wrapped text, in cells."""

_SEPARATOR: Final = " │ "
_TIMES: Final = ("sent", "answered", "latency", "outcome")
"""The facts in the line above both sides."""
_PLACE_SEPARATOR: Final = "   "
"""What comes between a time and its frame."""

Lines = Sequence[Sequence[Span]]


class SideBySideLines(OnDemandSequence[Sequence[Span]]):
    """Two texts side by side; a line is put together when it is drawn."""

    def __init__(self, left: Lines, right: Lines, width: int) -> None:
        """Join two texts.

        Args:
            left: the lines on the left.
            right: the lines on the right.
            width: the width of the left side, in cells.
        """
        self._left, self._right, self._width = left, right, width

    def __len__(self) -> int:
        return max(len(self._left), len(self._right))

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        left, left_width = fit_spans(self._left[at] if at < len(self._left) else (), self._width)
        right = self._right[at] if at < len(self._right) else ()
        return (*left, Span(" " * (self._width - left_width)), Span(_SEPARATOR, "dim"), *right)


class JoinedLines(OnDemandSequence[Sequence[Span]]):
    """Texts one below the other."""

    def __init__(self, *parts: Lines) -> None:
        """Join the texts."""
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        for part in self._parts:
            if at < len(part):
                return part[at]
            at -= len(part)
        raise IndexError(at)


def wrapped_facts(facts: Lines, width: int) -> Lines:
    """Returns the lines of facts, each a label and a text; a text that does not fit on its line continues below."""
    return [line for fact in facts for line in _wrapped_fact(fact, width)]


def _wrapped_fact(fact: Sequence[Span], width: int) -> Lines:
    label, *texts = fact or (Span(""),)
    text_width = width - cells(label.text)
    if len(texts) != 1 or cells(texts[0].text) <= text_width or text_width < MIN_TEXT_CELLS:
        return [fact]
    (text,) = texts
    return [
        (Span(" " * cells(label.text) if number else label.text, label.role), Span(line, text.role))
        for number, line in enumerate(wrapped(text.text, text_width))
    ]


def exchange_view(reading: Reading, row: int, width: int, facts: Sequence[Sequence[Span]]) -> Lines:
    """Returns the times of a row's exchange, and both sides; if one is below the other, the row itself comes first.

    Args:
        reading: the capture.
        row: the row; it belongs to an exchange.
        width: the width of a line, in cells.
        facts: a summary of the exchange, with a name and its value in each line.
    """
    number = reading.call(row)
    assert number is not None
    request = reading.calls.request[number]
    response = reading.partner(request)
    by_name = {_name(fact): fact for fact in facts}
    is_beside = width >= MIN_SIDE_BY_SIDE_CELLS
    side_width = (width - cells(_SEPARATOR)) // 2 if is_beside else width
    outcome = by_name.get("outcome", ())
    outcome_lines = [[Span(line, span.role)] for span in outcome[1:] for line in wrapped(span.text, side_width)]
    asked = _text(reading, request, side_width)
    answered = _text(reading, response, side_width) if response is not None else outcome_lines
    if is_beside:
        sides: Lines = SideBySideLines(asked, answered, side_width)
    else:
        first, second = (asked, answered) if row == request else (answered, asked)
        sides = JoinedLines(first, [[]] if first and second else [], second)
    other_facts = [fact for fact in facts if _name(fact) not in _TIMES]
    fact_lines = wrapped_facts(other_facts, width)
    return JoinedLines(
        [_times_line(by_name, side_width if is_beside else 0, width)], sides, [[], *fact_lines] if fact_lines else []
    )


def _name(fact: Sequence[Span]) -> str:
    return fact[0].text.strip() if fact else ""


def _text(reading: Reading, row: int | None, width: int) -> Lines:
    if row is None:
        return []
    writer = row_text(reading, row, width)
    return writer.lines if writer is not None else [[Span("too large, damaged or gone: see raw", "dim")]]


def _times_line(by_name: dict[str, Sequence[Span]], left_width: int, width: int) -> list[Span]:
    """Returns the line above both sides: when it was sent and answered, and between these its latency and outcome.

    If there is no room for the frames and their sizes, they are left out.

    Args:
        by_name: the facts, by their names.
        left_width: the width of the left side, in cells.
        width: the width of the line, in cells.
    """
    values = {name: "".join(span.text for span in by_name.get(name, ())[1:]) for name in _TIMES}
    role: Role = by_name["outcome"][1].role if len(by_name.get("outcome", ())) > 1 else "plain"
    result = " ".join(part for part in (values["latency"], values["outcome"].partition(":")[0]) if part)
    ends = [(f"→ {sent} ", f" ← {answered}" if answered else "") for sent, answered in _end_forms(values)]
    room = width - cells(f"─ {result} ──")
    sent, answered = next((end for end in ends if cells("".join(end)) <= room), ends[-1])
    dash_count = max(1, left_width - cells(sent) - cells(result) - 2)
    dash_count = min(dash_count, max(1, room + 1 - cells(sent + answered)))
    line = [Span(sent, "accent"), Span("─" * dash_count + " ", "dim"), Span(result, role), Span(" ──", "dim")]
    return line + ([Span(answered, "accent")] if answered else [])


def _end_forms(values: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields when a request was sent and answered, and in which frames, in ever shorter forms."""
    sent, answered = (values[name].partition(_PLACE_SEPARATOR) for name in ("sent", "answered"))
    yield values["sent"], values["answered"]
    yield _without_size(*sent), _without_size(*answered)
    yield sent[0], answered[0]


def _without_size(time: str, _: str, place: str) -> str:
    return f"{time} {place.partition(',')[0]}".rstrip()
