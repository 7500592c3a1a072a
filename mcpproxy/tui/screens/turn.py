"""From a call to all calls of its turn: what the same prompt of the user caused, on all servers of the client."""

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.turn_query import TurnQuery, turn_query
from mcpproxy.tui.rows.row_ids import client_name_at, ids_at
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.turns import no_turn_text


def show_turn(screen: TitledScreen, reading: Reading, row_actions: RowActions) -> None:
    """Query the calls of the turn of the call at the cursor, in a thread: the headers of other captures are read.

    If the client names no turn, these are the calls of the conversation or, if it names none either, of the trace.

    Args:
        screen: the screen with the row at the cursor.
        reading: its capture.
        row_actions: its actions on that row.
    """

    def find_query(row: int) -> None:
        number = reading.call(row)
        if number is None:
            screen.call_later(_show, screen, None, "this row is not part of an exchange")
            return
        ids = ids_at(reading, number)
        query = turn_query(reading, row, ids, screen.app.capture_list.captures)
        client = ids.client or client_name_at(reading, number) or ""
        screen.call_later(_show, screen, query, no_turn_text({client: 1}))

    row_actions.run_on_row(find_query)


def _show(screen: TitledScreen, query: TurnQuery | None, problem: str) -> None:
    if query is None:
        notify(screen.app, problem)
    else:
        screen.app.query_turn(query)
