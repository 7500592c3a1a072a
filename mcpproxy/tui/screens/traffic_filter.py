"""The filter of the traffic: applies it, extends it by a value of a row, and undoes it term by term."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from analysis.filter import Filter, FilterError, parse
from captures.errors import CaptureError
from mcpproxy.marks import Marks
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.copy_forms import CopyForm
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.pointing import Term, terms_of
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.widgets.traffic_list import TrafficList
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

COUNTED: Final = 100
"""The maximum number of filters whose numbers of matches are remembered."""
OF_CASE: Final = frozenset({"text", "method", "name"})
"""The keys of `Filter.keys` whose values contain names and texts of the peers, so that case matters."""
FAILURES: Final = "has:failure"


class TrafficFilter:
    """Makes a list show only the rows that an expression selects. The screen's thread searches for them."""

    def __init__(self, screen: CaptureScreen, listing: TrafficList, marks: Marks, only: str | None) -> None:
        """Start without a filter.

        Args:
            screen: the screen of the list.
            listing: the list.
            marks: the marks of the capture.
            only: the filter that the screen is opened with, if any.
        """
        self._screen, self._listing, self._marks = screen, listing, marks
        self._reading = screen.reading
        self._only = parse(only).text if only else None
        self.scan: Scan | None = None
        """The current filter; None if all rows are shown."""
        self._counts: dict[str, int] = {}
        """The numbers of rows that earlier filters selected, by filter."""
        self._near: tuple[int, int] | None = None
        """The entry at the cursor before the filter, and the row nearest to it so far."""

    @property
    def text(self) -> str:
        """The current expression, or an empty text if all rows are shown."""
        return self.scan.only.text if self.scan is not None else ""

    @property
    def _terms(self) -> tuple[str, ...]:
        return self.scan.only.terms if self.scan is not None else ()

    @property
    def is_searching(self) -> bool:
        """Whether the filter may select more."""
        return self.scan is not None and (self._screen.is_working or self.scan.is_waiting)

    # ---- what it selects

    def begin(self) -> None:
        """Apply the filter that the screen was opened with, if any."""
        if self._only is not None:
            self.select(self._only)

    def select(self, text: str) -> None:
        """Show the rows that an expression selects, or all rows if it is empty."""
        self._screen.leave_box()
        if not text:
            self._show_all()
            return
        try:
            expression = parse(text)
            scan = Scan(self._reading, expression, self._marks.notes)
        except (FilterError, CaptureError) as error:
            notify(self._screen.app, str(error).splitlines()[0], bad=True)
            return
        listing = self._listing
        entry, is_following = listing.entry, listing.table.following and self._reading.is_live
        self.drop()
        self.scan, listing.selected = scan, scan.rows
        self._near = (entry, 0) if entry is not None and not is_following else None
        listing.table.following = is_following
        listing.rows.is_exchanges = False
        listing.show(None)
        self._screen.begin(scan.step, "scan")
        self._show_nothing()
        self._screen.show_title()

    def _show_all(self) -> None:
        entry = self._listing.entry
        self.drop()
        self._listing.rows.is_exchanges = False
        self._listing.show(entry)
        self._show_nothing()
        self._screen.show_title()

    def drop(self) -> None:
        """Drop the filter without redrawing the list."""
        self.stop()
        self.scan, self._near, self._listing.selected = None, None, None

    def stop(self) -> None:
        """Stop the search."""
        self._screen.stop()
        if self.scan is not None:
            if self.scan.has_ended or not self.is_searching:
                self._counts[self.text] = len(self.scan.rows)
                if len(self._counts) > COUNTED:
                    del self._counts[next(iter(self._counts))]
            self.scan.close()

    def undo_last_term(self) -> bool:
        """Undo the last term; returns False if there is none, or the screen was opened with it."""
        if self.scan is None or self._is_as_opened:
            return False
        self.select(" ".join(self._terms[:-1]))
        return True

    @property
    def _is_as_opened(self) -> bool:
        """Whether the screen was opened with this filter: then there is no earlier view to go back to."""
        return self.scan is not None and self.text == self._only

    def renew(self) -> None:
        """Show the rows that were found since the last call."""
        if self.scan is not None:
            self._listing.table.renew()
            self._go_near()
            self._show_nothing()

    def _go_near(self) -> None:
        """Keep the cursor near the entry it was on before, until the user moves it or the nearest row is known."""
        if self._near is None or self.scan is None or self._listing.is_sorted:
            return
        (entry, line), rows, table = self._near, self.scan.rows, self._listing.table
        if table.cursor != line or not rows:
            self._near = None if rows else self._near
            return
        next_row = bisect_left(rows, entry)
        neighbours = [row for row in (next_row - 1, next_row) if 0 <= row < len(rows)]
        line = min(neighbours, key=lambda row: abs(rows[row] - entry))
        self._near = (entry, line) if next_row == len(rows) and self._screen.is_working else None
        table.go(line)

    def _show_nothing(self) -> None:
        """If the filter selects nothing, show a message about that and about what Esc does."""
        scan = self.scan
        if scan is None or scan.rows or self.is_searching or not scan.frames:
            self._listing.show_nothing(())
            return
        case_hint = "" if scan.only.keys.keys().isdisjoint(OF_CASE) else "case matters; "
        spans = [Span("nothing matches ", "dim"), Span(scan.only.text, "accent"), Span(f"; {case_hint}", "dim")]
        self._listing.show_nothing([*spans, Span(self._what_escape_shows(scan.only), "dim")])

    def _what_escape_shows(self, expression: Filter) -> str:
        if self._is_as_opened:
            return "Esc goes back"
        earlier_text = " ".join(expression.terms[:-1])
        count = self._counts.get(earlier_text) if earlier_text else len(self._listing.all_rows)
        return f"Esc removes {expression.terms[-1]}" if count is None else f"Esc shows {count_text(count, 'row')}"

    # ---- terms from a row

    def turn_failures(self) -> None:
        """Restrict the rows to errors and requests without a response, or undo this."""
        if FAILURES in self._terms:
            self.select(" ".join(term for term in self._terms if term != FAILURES))
        else:
            self._add(FAILURES)

    def _add(self, term: str) -> None:
        """Restrict the rows by one more term."""
        terms = self._terms
        if term in terms:
            notify(self._screen.app, f"the filter already has {term}")
            return
        prefix = f"({terms[0]}) " if len(terms) == 1 else "".join(f"{earlier_term} " for earlier_term in terms)
        self.select(parse(f"{prefix}{term}").text)

    def point(self, row_actions: RowActions, *, excludes: bool) -> None:
        """Restrict the rows to those with a value of the row at the cursor, or to those without it."""
        is_exchange = self._listing.rows.is_exchanges

        def find_terms(entry: int) -> None:
            answer = self._reading.partner(entry) if is_exchange else None
            try:
                terms, problem = terms_of(self._reading, entry, answer), ""
            except OSError as error:
                terms, problem = [], error.strerror or str(error)
            self._screen.call_later(self._choose, terms, problem, excludes=excludes)

        row_actions.read(find_terms)

    def _choose(self, offered_terms: Sequence[Term], problem: str, *, excludes: bool) -> None:
        terms = [term._replace(text=f"not {term.text}") if excludes else term for term in offered_terms]
        terms = [term for term in terms if term.text not in self._terms]
        if not terms:
            notify(self._screen.app, problem or "no filter term fits this row", bad=bool(problem))
            return
        if len(terms) == 1:
            self._add(terms[0].text)
            return
        choices = [
            CopyForm(str(number), sanitise(term.text), term.text, term.about)
            for number, term in enumerate(terms[:9], 1)
        ]
        label = "without" if excludes else "only"
        self._screen.app.push_screen(ChoiceScreen(f"{label} …   Enter takes the first", choices), self._take)

    def _take(self, form: CopyForm | None) -> None:
        if form is not None:
            self._add(form.text)
