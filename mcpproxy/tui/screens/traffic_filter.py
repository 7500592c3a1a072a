"""The filter of the traffic screen: typed, pointed at, and taken back term by term."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from analysis.filter import Filter, FilterError, parse
from captures.errors import CaptureError
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import filter_completion
from mcpproxy.tui.copies.copy_forms import CopyForm
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.messages import Pointed, Progressed
from mcpproxy.tui.pointing import terms_of
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture
from mcpproxy.tui.screens.list_screen import TO_FILTER
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.traffic_rows import TrafficRowsScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

SUGGESTIONS: Final = 300
"""The maximum width of Tab's suggestions, in cells."""
COUNTED: Final = 100
"""The number of filters whose matches are remembered."""
OF_CASE: Final = frozenset({"text", "method", "name"})
"""The keys of `Filter.keys` whose values contain names and texts of the peers: upper and lower case differ."""
FAILURES: Final = "has:failure"


class TrafficFilterScreen(TrafficRowsScreen):
    """A list of traffic that a filter may restrict."""

    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        Binding("exclamation_mark", "errors", "errors", id="errors"),
        Binding("plus", "point(False)", "only these", show=False, id="include"),
        Binding("minus", "point(True)", "without these", show=False, id="exclude"),
    ]

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture, where to go first, and the filter that the screen is opened with, if any.
        """
        super().__init__(capture)
        self._only = parse(capture.only).text if capture.only else None
        self._scan: Scan | None = None
        """The filter in force."""
        self._counts: dict[str, int] = {}
        """How many rows earlier filters selected."""
        self._suggested = ""
        self._near: tuple[int, int] | None = None
        """The entry at the cursor before the filter, and the row nearest to it so far."""

    def on_unmount(self) -> None:
        """Stop reading."""
        self._end_scan()

    @property
    def unsorted(self) -> Sequence[int]:
        """The rows to list, in the order of the capture."""
        return self._scan.rows if self._scan is not None else super().unsorted

    @property
    def view_to_sort(self) -> Sequence[int]:
        """The rows to sort: a filter may drop rows later."""
        return array("I", self._scan.rows) if self._scan is not None else super().view_to_sort

    @property
    def _is_whole(self) -> bool:
        return self._scan is None

    # ---- the box

    def action_filter(self) -> None:
        """Type an expression, or edit the one in force."""
        self.query_one(FilterBox).open(self._scan.only.text if self._scan is not None else "")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        # An error in the unfinished expression does not hide Tab's suggestions.
        if event.value != self._suggested:
            self._suggested = ""
            self._point_at_error(event.value)

    def _point_at_error(self, text: str) -> str | None:
        """Show where an expression is wrong; returns the error."""
        wrong = self.query_one("#wrong", Words)
        try:
            if text.strip():
                parse(text)
        except FilterError as error:
            wrong.show_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            wrong.display = True
            return error.wrong
        wrong.display = False
        return None

    def complete(self) -> None:
        """Complete the term before the cursor."""
        box, wrong = self.query_one(FilterBox), self.query_one("#wrong", Words)
        term, completion = filter_completion(box.before, self.reading.kinds.all)
        if completion is not None and completion.text != term:
            box.complete(term, completion.text)
        if completion is not None and completion.options:
            wrong.show([Span(fit("  ".join(map(sanitise, completion.options)), SUGGESTIONS), "dim")])
            wrong.display = True
            self._suggested = box.value

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text and self._point_at_error(text) is not None:
            return
        self.query_one(FilterBox).keep(text)
        self.select(text)

    def leave_box(self) -> None:
        """Hide the filter box and the error in it, and go back to the list."""
        self.query_one("#wrong", Words).display = False
        super().leave_box()

    # ---- what it selects

    def select(self, text: str) -> None:
        """Show what an expression selects; everything if it is empty."""
        self.leave_box()
        if not text:
            self._show_all()
            return
        try:
            only = parse(text)
            scan = Scan(self.reading, only, self.marks.notes)
        except (FilterError, CaptureError) as error:
            notify(self.app, str(error).splitlines()[0], bad=True)
            return
        entry, following = self.entry, self.table.following and self.reading.is_live
        self.drop_filter()
        self._scan = scan
        self._near = (entry, 0) if entry is not None and not following else None
        self.table.following = following
        self._rows.is_exchanges = False
        self.show_view(None)
        self.begin(scan.step, "scan")
        self.show_nothing()
        self.show_title()

    @property
    def _is_as_opened(self) -> bool:
        """Whether the screen was opened with this filter: then there is no earlier view to go back to."""
        return self._scan is not None and self._scan.only.text == self._only

    @property
    def is_searching(self) -> bool:
        """Whether the filter may select more."""
        return self._scan is not None and (self.is_working or self._scan.is_waiting)

    def drop_filter(self) -> None:
        """Forget the filter."""
        self._end_scan()
        self._scan, self._near = None, None

    def _end_scan(self) -> None:
        self.end()
        if self._scan is not None:
            if self._scan.has_ended or not self.is_searching:
                self._counts[self._scan.only.text] = len(self._scan.rows)
                if len(self._counts) > COUNTED:
                    del self._counts[next(iter(self._counts))]
            self._scan.close()

    def _show_all(self) -> None:
        entry = self.entry
        self.drop_filter()
        self._rows.is_exchanges = False
        self.show_view(entry)
        self.show_nothing()
        self.show_title()

    def clear_filter(self) -> bool:
        """Take back the order, or the filter's last term; False if the rows are as when the screen was opened."""
        if self.is_sorted:
            self.restore_order()
        elif self._scan is None or self._is_as_opened:
            return False
        else:
            self.select(" ".join(self._scan.only.terms[:-1]))
        return True

    @on(Progressed)
    def _matched(self) -> None:
        if self._scan is not None:
            self.table.renew()
            self._go_near()
            self.show_nothing()
        self.show_place()

    def _go_near(self) -> None:
        """Keep the cursor near its entry before the filter, until the user moves it or the nearest row is known."""
        if self._near is None or self._scan is None or self.is_sorted:
            return
        (entry, placed), rows = self._near, self._scan.rows
        if self.table.cursor != placed or not rows:
            self._near = None if rows else self._near
            return
        after = bisect_left(rows, entry)
        near = [row for row in (after - 1, after) if 0 <= row < len(rows)]
        placed = min(near, key=lambda row: abs(rows[row] - entry))
        self._near = (entry, placed) if after == len(rows) and self.is_working else None
        self.table.go(placed)

    def show_nothing(self) -> None:
        """Say so if the filter selects nothing, and what Esc shows then."""
        scan = self._scan
        is_none = scan is not None and not scan.rows and not self.is_searching and scan.frames > 0
        self.set_class(is_none, "-none")
        if not is_none or scan is None:
            return
        case = "" if scan.only.keys.keys().isdisjoint(OF_CASE) else "case matters; "
        spans = [Span("nothing matches ", "dim"), Span(scan.only.text, "accent"), Span(f"; {case}", "dim")]
        self.query_one("#nothing", Words).show([*spans, Span(self._what_escape_shows(scan.only), "dim")])

    def _what_escape_shows(self, only: Filter) -> str:
        if self._is_as_opened:
            return "Esc goes back"
        rest = " ".join(only.terms[:-1])
        count = self._counts.get(rest) if rest else len(super().unsorted)
        return f"Esc removes {only.terms[-1]}" if count is None else f"Esc shows {count_text(count, 'row')}"

    # ---- pointing

    def action_errors(self) -> None:
        """Show only errors and requests without a response, or no longer only these."""
        terms = self._terms
        if FAILURES in terms:
            self.select(" ".join(term for term in terms if term != FAILURES))
        else:
            self._add(FAILURES)

    @property
    def _terms(self) -> tuple[str, ...]:
        return self._scan.only.terms if self._scan is not None else ()

    def _add(self, term: str) -> None:
        """Restrict the rows by one more term."""
        terms = self._terms
        if term in terms:
            notify(self.app, f"the filter already has {term}")
            return
        before = f"({terms[0]}) " if len(terms) == 1 else "".join(f"{known} " for known in terms)
        self.select(parse(f"{before}{term}").text)

    def action_point(self, excludes: bool) -> None:
        """Restrict the rows to those with a value of this row, or to those without it."""
        is_exchange = self._rows.is_exchanges

        def work(entry: int) -> None:
            answer = self.reading.partner(entry) if is_exchange else None
            try:
                terms, problem = [(term.text, term.about) for term in terms_of(self.reading, entry, answer)], ""
            except OSError as error:
                terms, problem = [], error.strerror or str(error)
            self.post_message(Pointed(terms, excludes=excludes, problem=problem))

        self.read_row(work)

    @on(Pointed)
    def _choose_term(self, event: Pointed) -> None:
        terms = [(f"not {text}" if event.excludes else text, about) for text, about in event.terms]
        terms = [(text, about) for text, about in terms if text not in self._terms]
        if not terms:
            notify(self.app, event.problem or "no filter term fits this row", bad=bool(event.problem))
            return
        if len(terms) == 1:
            self._add(terms[0][0])
            return
        forms = [
            CopyForm(str(number), sanitise(text), text, about) for number, (text, about) in enumerate(terms[:9], 1)
        ]
        label = "without" if event.excludes else "only"
        self.app.push_screen(ChoiceScreen(f"{label} …   Enter takes the first", forms), self._take_term)

    def _take_term(self, form: CopyForm | None) -> None:
        if form is not None:
            self._add(form.text)
