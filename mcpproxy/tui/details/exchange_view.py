"""The exchange of a row: the request, how long it took, and the response; side by side if there is room."""

from collections.abc import Sequence
from typing import Final

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.on_demand import OnDemandSequence
from mcpproxy.tui.text.rows import row_text
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_SIDE_BY_SIDE_CELLS: Final = 96
"""The minimum width, in cells, to show both sides next to each other; a terminal with 100 columns has enough room."""
MIN_TEXT_CELLS: Final = 8
"""The minimum width of a wrapped text, in cells."""

_SEPARATOR: Final = " │ "
_TIMES: Final = ("sent", "answered", "latency", "outcome")
"""The facts in the line above both sides."""
_SIDES: Final = ("client", "server")

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
    """Returns both sides of a row's exchange, and its times; if one is below the other, the row itself comes first.

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
    side_facts = [fact for fact in facts if _name(fact) in _SIDES]
    if width < MIN_SIDE_BY_SIDE_CELLS:
        fact_lines = wrapped_facts([fact for fact in facts if _name(fact) not in _SIDES], width)
        first, second = (request, response) if row == request else (response, request)
        return JoinedLines(
            _text(reading, first, width), [[], *fact_lines, []], _text(reading, second, width), [[], *side_facts]
        )
    column_width = (width - cells(_SEPARATOR)) // 2
    outcome = by_name.get("outcome", ())
    outcome_lines = [[Span(line, span.role)] for span in outcome[1:] for line in wrapped(span.text, column_width)]
    sides = SideBySideLines(
        _text(reading, request, column_width),
        _text(reading, response, column_width) if response is not None else outcome_lines,
        column_width,
    )
    other_facts = [fact for fact in facts if _name(fact) not in (*_TIMES, *_SIDES)]
    return JoinedLines(
        [_times_line(by_name, column_width)], sides, [[], *wrapped_facts(other_facts, width), *side_facts]
    )


def _name(fact: Sequence[Span]) -> str:
    return fact[0].text.strip() if fact else ""


def _text(reading: Reading, row: int | None, width: int) -> Lines:
    if row is None:
        return []
    writer = row_text(reading, row, width)
    return writer.lines if writer is not None else [[Span("too large, damaged or gone: see raw", "dim")]]


def _times_line(by_name: dict[str, Sequence[Span]], column_width: int) -> list[Span]:
    """Returns the line above both sides: when it was sent and answered, and between these its latency and outcome."""
    values = {name: "".join(span.text for span in by_name.get(name, ())[1:]) for name in _TIMES}
    role: Role = by_name["outcome"][1].role if len(by_name.get("outcome", ())) > 1 else "plain"
    result = " ".join(part for part in (values["latency"], values["outcome"].partition(":")[0]) if part)
    sent_text = f"→ {values['sent']} "
    dash_count = max(0, column_width - cells(sent_text) - cells(result) - 2)
    line = [Span(sent_text, "accent"), Span("─" * dash_count + " ", "dim"), Span(result, role), Span(" ── ", "dim")]
    return line + ([Span(f"← {values['answered']}", "accent")] if values["answered"] else [])
