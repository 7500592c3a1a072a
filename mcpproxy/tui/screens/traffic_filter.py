"""The filter of the traffic: applies it, extends it by a value of a row, and undoes it term by term."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from analysis.filter import Filter, FilterError, parse
from captures.errors import CaptureError
from mcpproxy.marks import Marks
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.copy_forms import CopyForm
from mcpproxy.tui.data.call_selection import RequestRows
from mcpproxy.tui.data.counted_scan import CountedScan
from mcpproxy.tui.data.waiting_first_rows import WaitingFirstRows
from mcpproxy.tui.pointing import FilterTerm, negated, terms_of
from mcpproxy.tui.rows.traffic_columns import CAPTURE_ORDER, RowOrder
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.widgets.traffic_list import TrafficList
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

MAX_REMEMBERED_FILTERS: Final = 100
"""The maximum number of filters whose numbers of matches are remembered."""
CASE_SENSITIVE_KEYS: Final = frozenset({"text", "method", "name"})
"""The keys of `Filter.keys` whose values contain names and texts of the peers, so that case matters."""
FAILURES_TERM: Final = "has:failure"
TROUBLE_TERM: Final = "has:failure or has:waiting"
"""The term for a live capture: also what may become a failure. It lists waiting requests first."""
_TROUBLE_TERMS: Final = frozenset({FAILURES_TERM, TROUBLE_TERM, f"({TROUBLE_TERM})"})


def trouble_term(*, is_live: bool) -> str:
    """Returns the term for what went wrong in a capture."""
    return TROUBLE_TERM if is_live else FAILURES_TERM


class _ListState(NamedTuple):
    """What the list shows before an expression is typed."""

    text: str
    """The filter; empty if there is none."""
    entry: int | None
    """The entry at the cursor."""
    is_following: bool
    is_exchanges: bool
    order: RowOrder


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
        self._opening_filter = parse(only).text if only else None
        self.scan: CountedScan | None = None
        """The current filter; None if all rows are shown."""
        self._request_rows: RequestRows | None = None
        """The selected exchanges; None if frames are listed, or all exchanges."""
        self._counts: dict[str, int] = {}
        """The numbers of rows that earlier filters selected, by filter."""
        self._cursor_goal: tuple[int, int] | None = None
        """The entry at the cursor before the filter, and the row nearest to it so far."""
        self._typed_over: _ListState | None = None
        """What the list showed before an expression was typed; None if the box is closed."""
        self._typed_scan: CountedScan | None = None
        """The scan for an expression that is being typed, until it has found something or has ended."""
        self._has_typed = False
        """Whether what was typed has changed the rows."""

    @property
    def text(self) -> str:
        """The current expression, or an empty text if all rows are shown."""
        return self.scan.row_filter.text if self.scan is not None else ""

    @property
    def _terms(self) -> tuple[str, ...]:
        return self.scan.row_filter.terms if self.scan is not None else ()

    @property
    def is_searching(self) -> bool:
        """Whether the filter may select more."""
        return self.scan is not None and (self._screen.is_working or self.scan.is_waiting)

    # ---- what it selects

    def apply_opening_filter(self) -> None:
        """Apply the filter that the screen was opened with, if any."""
        if self._opening_filter is not None:
            self.apply(self._opening_filter)

    def apply(self, text: str) -> None:
        """Show the rows that an expression selects, or all rows if it is empty."""
        self._screen.leave_box()
        self._end_typing()
        if not text:
            self._show_all()
            return
        try:
            scan = self._scan_for(parse(text))
        except (FilterError, CaptureError) as error:
            notify(self._screen.app, str(error).splitlines()[0], bad=True)
            return
        listing = self._listing
        is_following = listing.table.following and self._reading.is_live
        self._use(scan, listing.entry, is_following=is_following)
        self._screen.start_thread(scan.step, "scan")

    def _scan_for(self, expression: Filter) -> CountedScan:
        scan = CountedScan(self._reading, expression, self._marks.notes)
        if self._listing.rows.is_exchanges:
            scan.select_calls()
        return scan

    def _use(self, scan: CountedScan, entry: int | None, *, is_following: bool) -> None:
        """Show the rows of a scan, with the cursor near an entry or at the end."""
        self._forget()
        self.scan = scan
        self._list_selected(scan, entry, is_following=is_following)

    def _list_selected(self, scan: CountedScan, entry: int | None, *, is_following: bool) -> None:
        """Show the frames or exchanges of a scan, with the cursor near an entry or at the end."""
        listing = self._listing
        if listing.rows.is_exchanges:
            self._request_rows = RequestRows(scan.select_calls(), self._reading.calls.request)
            listing.selected_rows = self._request_rows
        else:
            scan.calls, self._request_rows, listing.selected_rows = None, None, scan.rows
        if self._reading.is_live and not _TROUBLE_TERMS.isdisjoint(scan.row_filter.terms):
            listing.selected_rows = WaitingFirstRows(listing.selected_rows)
            is_following = False
        self._cursor_goal = (listing.line_of(entry), 0) if entry is not None and not is_following else None
        listing.table.following = is_following
        listing.show(None)
        self._show_empty_text()
        self._screen.show_title()

    def switch_exchanges(self) -> None:
        """Switch between frames and exchanges; the filter stays."""
        listing, scan = self._listing, self.scan
        entry = listing.entry
        if scan is not None:
            self._screen.stop_thread()
        listing.rows.is_exchanges = not listing.rows.is_exchanges
        if scan is None:
            listing.show(entry)
            return
        self._list_selected(scan, entry, is_following=listing.table.following and self._reading.is_live)
        self._screen.start_thread(scan.step, "scan")
        self.renew()

    # ---- while an expression is typed

    def begin_typing(self) -> str:
        """Note what the list shows, before an expression is typed; returns the text to begin with."""
        listing = self._listing
        self._has_typed = False
        self._typed_over = _ListState(
            self.text,
            listing.entry,
            listing.table.following and self._reading.is_live,
            listing.rows.is_exchanges,
            listing.order,
        )
        return f"{self.text} " if self.text else ""

    def preview(self, text: str) -> None:
        """Show the rows that an expression selects so far, while it is typed; an invalid one changes nothing."""
        earlier = self._typed_over
        if earlier is None:
            return
        try:
            expression = parse(text) if text.strip() else None
        except FilterError:
            return
        current = self._typed_scan or self.scan
        if (expression.text if expression is not None else "") == (current.row_filter.text if current else ""):
            return
        self._has_typed = True
        if expression is None:
            self._drop_typed_scan()
            self._show_all(earlier.entry)
            self._listing.table.following = earlier.is_following
            return
        try:
            scan = self._scan_for(expression)
        except CaptureError:
            return
        # The rows stay until the first new ones are known, so that they do not flicker.
        self._drop_typed_scan()
        self._typed_scan = scan
        self._screen.start_thread(scan.step, "scan", holds_keys=False)

    def confirm(self, text: str) -> None:
        """Show the rows of the expression that was typed, and close the box."""
        self.preview(text)
        self._show_typed_rows()
        self._screen.leave_box()
        self._screen.hold_keys()
        self._end_typing()
        self._show_empty_text()

    def restore(self) -> None:
        """Show what was shown before an expression was typed, and close the box."""
        self._screen.leave_box()
        earlier = self._typed_over
        self._end_typing()
        if earlier is None or not self._has_typed:
            self._show_empty_text()
            return
        self._listing.rows.is_exchanges = earlier.is_exchanges
        if earlier.text:
            scan = self._scan_for(parse(earlier.text))
            self._use(scan, earlier.entry, is_following=earlier.is_following)
            self._screen.start_thread(scan.step, "scan")
        else:
            self._forget()
            self._listing.show(earlier.entry)
            self._listing.table.following = earlier.is_following
            self._show_empty_text()
            self._screen.show_title()
        if earlier.order != CAPTURE_ORDER:
            self._listing.sort_by(earlier.order)

    def _show_typed_rows(self) -> None:
        """Show the rows of the expression that is being typed, if they are not shown yet."""
        earlier, scan = self._typed_over, self._typed_scan
        if scan is not None and earlier is not None:
            self._typed_scan = None
            self._use(scan, earlier.entry, is_following=earlier.is_following)

    def _end_typing(self) -> None:
        self._drop_typed_scan()
        self._typed_over = None

    def _drop_typed_scan(self) -> None:
        if self._typed_scan is not None:
            self._screen.stop_thread()
            self._typed_scan.close()
            self._typed_scan = None

    def _show_all(self, entry: int | None = None) -> None:
        entry = self._listing.entry if entry is None else entry
        self._screen.stop_thread()
        self._forget()
        self._listing.show(entry)
        self._show_empty_text()
        self._screen.show_title()

    def drop(self) -> None:
        """Drop the filter without redrawing the list."""
        self.stop()
        self._forget()

    def stop(self) -> None:
        """Stop the search."""
        self._screen.stop_thread()
        self._end_typing()
        self._forget()

    def _forget(self) -> None:
        """Close the scan, and remember how many rows it has selected."""
        if self.scan is not None:
            if self.scan.has_ended or not self.is_searching:
                self._counts[self.text] = len(self.scan.rows)
                if len(self._counts) > MAX_REMEMBERED_FILTERS:
                    del self._counts[next(iter(self._counts))]
            self.scan.close()
        self.scan, self._cursor_goal, self._listing.selected_rows = None, None, None
        self._request_rows = None

    def undo_last_term(self) -> bool:
        """Undo the last term; returns False if there is none, or the screen was opened with it."""
        if self.scan is None or self._is_as_opened:
            return False
        self.apply(" ".join(self._terms[:-1]))
        return True

    @property
    def _is_as_opened(self) -> bool:
        """Whether the screen was opened with this filter: then there is no earlier view to go back to."""
        return self.scan is not None and self.text == self._opening_filter

    def renew(self) -> None:
        """Show the rows that were found since the last call."""
        self._show_typed_rows()
        if self.scan is not None:
            if self._request_rows is not None:
                self._request_rows.renew()
            self._listing.renew_selection()
            self._keep_cursor_near()
            self._show_empty_text()

    def _keep_cursor_near(self) -> None:
        """Keep the cursor near the entry it was on before, until the user moves it or the nearest row is known."""
        if self._cursor_goal is None or self.scan is None or not self._listing.is_ascending:
            return
        (entry, line), table = self._cursor_goal, self._listing.table
        rows = self.scan.rows if self._request_rows is None else self._request_rows
        if table.cursor != line or not rows:
            self._cursor_goal = None if rows else self._cursor_goal
            return
        next_row = bisect_left(rows, entry)
        neighbours = [row for row in (next_row - 1, next_row) if 0 <= row < len(rows)]
        line = min(neighbours, key=lambda row: abs(rows[row] - entry))
        self._cursor_goal = (entry, line) if next_row == len(rows) and self._screen.is_working else None
        table.go(line)

    def _show_empty_text(self) -> None:
        """If the filter selects nothing, show a message about that and about what Esc does."""
        scan = self.scan
        rows = () if scan is None else scan.rows if self._request_rows is None else self._request_rows
        if scan is None or rows or self.is_searching or not scan.frame_count:
            self._listing.show_nothing(())
            return
        if scan.rows:
            count = count_text(len(scan.rows), "row")
            self._listing.show_nothing(
                [
                    Span("no exchange matches ", "dim"),
                    Span(scan.row_filter.text, "accent"),
                    Span(f"; x shows {count}", "dim"),
                ]
            )
            return
        case_hint = "" if scan.row_filter.keys.keys().isdisjoint(CASE_SENSITIVE_KEYS) else "case matters; "
        spans = [Span("nothing matches ", "dim"), Span(scan.row_filter.text, "accent"), Span(f"; {case_hint}", "dim")]
        hint = self._escape_hint(scan.row_filter) if self._typed_over is None else "Esc shows what was shown before"
        self._listing.show_nothing([*spans, Span(hint, "dim")])

    def _escape_hint(self, expression: Filter) -> str:
        if self._is_as_opened:
            return "Esc goes back"
        earlier_text = " ".join(expression.terms[:-1])
        earlier_count = None if self._listing.rows.is_exchanges else self._counts.get(earlier_text)
        count = earlier_count if earlier_text else len(self._listing.all_rows)
        return f"Esc removes {expression.terms[-1]}" if count is None else f"Esc shows {count_text(count, 'row')}"

    # ---- terms from a row

    def toggle_failures(self) -> None:
        """Restrict the rows to errors and requests without a response, or undo this."""
        if not _TROUBLE_TERMS.isdisjoint(self._terms):
            self.apply(" ".join(term for term in self._terms if term not in _TROUBLE_TERMS))
        else:
            term = trouble_term(is_live=self._reading.is_live)
            self._add_term(f"({term})" if self._terms and term == TROUBLE_TERM else term)

    def _add_term(self, term: str) -> None:
        """Restrict the rows by one more term."""
        terms = self._terms
        if term in terms:
            notify(self._screen.app, f"the filter already has {term}")
            return
        prefix = f"({terms[0]}) " if len(terms) == 1 else "".join(f"{earlier_term} " for earlier_term in terms)
        self.apply(parse(f"{prefix}{term}").text)

    def restrict_by_row(self, row_actions: RowActions, *, excludes: bool) -> None:
        """Restrict the rows to those with a value of the row at the cursor, or to those without it."""
        is_exchange = self._listing.rows.is_exchanges

        def find_terms(entry: int) -> None:
            answer = self._reading.partner(entry) if is_exchange else None
            try:
                terms, problem = terms_of(self._reading, entry, answer), ""
            except OSError as error:
                terms, problem = [], error.strerror or str(error)
            self._screen.call_later(self._choose_term, terms, problem, excludes=excludes)

        row_actions.run_on_row(find_terms)

    def _choose_term(self, offered_terms: Sequence[FilterTerm], problem: str, *, excludes: bool) -> None:
        terms = [term._replace(text=negated(term.text)) if excludes else term for term in offered_terms]
        terms = [term for term in terms if term.text not in self._terms]
        if not terms:
            notify(self._screen.app, problem or "no filter term fits this row", bad=bool(problem))
            return
        if len(terms) == 1:
            self._add_term(terms[0].text)
            return
        choices = [
            CopyForm(str(number), sanitise(term.text), term.text, term.subject)
            for number, term in enumerate(terms[:9], 1)
        ]
        label = "without" if excludes else "only"
        self._screen.app.push_screen(ChoiceScreen(f"{label} …   Enter takes the first", choices), self._add_choice)

    def _add_choice(self, form: CopyForm | None) -> None:
        if form is not None:
            self._add_term(form.text)
