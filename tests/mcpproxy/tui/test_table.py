"""Tables: which columns are shown if there is not enough room."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.tui.widgets.table import Column, layout

COLUMN = st.builds(
    Column, st.sampled_from("abc"), st.just(""), st.integers(0, 9), stretch=st.booleans(), drop=st.integers(0, 3)
)


def one_by_one(columns: Sequence[Column], width: int, gap: int) -> list[Column]:
    """The columns that fit, computed in the slow way: by a new search for each column to drop."""
    kept = list(columns)
    while kept and sum(column.width for column in kept) + gap * (len(kept) - 1) > width:
        goes = max(kept, key=lambda column: column.drop)
        if not goes.drop:
            break
        kept.remove(goes)
    return kept


@given(st.lists(COLUMN, max_size=8), st.integers(0, 60), st.integers(0, 2))
def test_the_columns_that_go_first_do_so(columns: list[Column], width: int, gap: int) -> None:
    made = layout(columns, width, gap)
    assert [column for column, _ in made] == one_by_one(columns, width, gap)
    taken = sum(size for _, size in made) + gap * (len(made) - 1)
    if any(column.stretch for column, _ in made):
        assert taken == max(width, sum(column.width for column, _ in made) + gap * (len(made) - 1))
    else:
        assert [size for _, size in made] == [column.width for column, _ in made]


def test_ten_thousand_columns_are_laid_out_at_once() -> None:
    columns = [Column(str(number), "", 4, drop=number) for number in range(10_000)]
    for _ in range(20):
        assert len(layout(columns, 99)) == 20
