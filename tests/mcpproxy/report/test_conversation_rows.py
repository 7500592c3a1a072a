"""The rows of a conversation: which parts give way if space is short."""

from mcpproxy.report.conversation_rows import ConversationRow, lay_out
from mcpproxy.wording.spans import Span


def laid_out(width: int) -> str:
    """Returns the row of a response with the time of day, in that many columns."""
    subject = [Span("tools/list #2"), Span(" " * 11)]
    row = ConversationRow(
        Span("←"), subject, Span("ok"), (Span("  5 tools"),), latency="0.35 ms", size="1.5 kB", frame=7
    )
    (line,) = lay_out(row, "16:19:19.774", width)
    return "".join(span.text for span in line)


def test_a_result_is_not_cut_for_the_sake_of_columns() -> None:
    # The width that `show --follow --all` has left of 80 columns.
    assert laid_out(72).split() == [
        "16:19:19.774",
        "7",
        "←",
        "tools/list",
        "#2",
        "ok",
        "5",
        "tools",
        *["0.35", "ms", "1.5", "kB"],
    ]


def test_columns_stay_aligned_if_there_is_room() -> None:
    assert f"tools/list #2{' ' * 11}ok" in laid_out(96)
