"""Whatever a comparison holds, each format of it can be read by what reads that format."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.change import (
    ABSENT,
    Change,
    Comparison,
    Gap,
    Ignored,
    LatencyRow,
    Place,
    SideSummary,
    SizeRow,
    Witness,
)
from analysis.comparison.kind import Severity
from analysis.comparison.kinds.table import KINDS
from mcpproxy.report.comparison import write_comparison
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.markdown import MAX_ISSUE_CHARS
from mcpproxy.wording.spans import Style
from tests.examples import examples
from tests.mcpproxy.exporters.test_markdown_integration import OURS, Rendered
from tests.mcpproxy.report.comparisons import HOSTILE
from tests.mcpproxy.report.test_comparison_formats import COMMAND, FAILURE
from tests.mcpproxy.report.test_findings_formats import checked, run_in

TEXTS = st.text(max_size=40) | st.just(HOSTILE)
NUMBERS = st.integers(0, 2**70)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
MAYBE_VALUES: st.SearchStrategy[Any] = st.just(ABSENT) | VALUES
PLACES = st.none() | st.builds(Place, TEXTS, st.integers(0, 3), st.integers(-1, 2**40))
CHANGES = st.builds(
    Change,
    st.sampled_from(list(KINDS.values())),
    TEXTS,
    TEXTS,
    TEXTS,
    MAYBE_VALUES,
    MAYBE_VALUES,
    PLACES,
    PLACES,
    st.none() | st.builds(Witness, VALUES, st.booleans()),
    st.none() | st.sampled_from(Severity),
    NUMBERS,
    st.just("") | TEXTS,
)
SIDES = st.builds(
    SideSummary,
    TEXTS,
    st.integers(0, 3),
    NUMBERS,
    NUMBERS,
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.lists(TEXTS, max_size=3).map(tuple),
    st.none() | st.integers(),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.booleans(),
    TEXTS,
)
RATIOS = st.none() | st.tuples(st.floats(0, 1e9), st.floats(0, 1e9))
TIMES = st.none() | NUMBERS
LATENCIES = st.builds(
    LatencyRow,
    TEXTS,
    NUMBERS,
    NUMBERS,
    TIMES,
    TIMES,
    TIMES,
    TIMES,
    RATIOS,
    RATIOS,
    st.sampled_from(["slower", "faster", "same", "cannot tell"]),
)
COMPARISONS = st.builds(
    Comparison,
    SIDES,
    SIDES,
    st.lists(CHANGES, max_size=6).map(tuple),
    st.lists(st.builds(Gap, TEXTS, TEXTS, st.booleans()), max_size=3).map(tuple),
    st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS), max_size=3).map(tuple),
    st.lists(st.builds(Ignored, TEXTS, NUMBERS, NUMBERS), max_size=3).map(tuple),
    st.lists(LATENCIES, max_size=3).map(tuple),
    st.lists(st.builds(SizeRow, TEXTS, *([NUMBERS] * 6)), max_size=3).map(tuple),
    st.lists(CHANGES, max_size=2).map(tuple),
)


def document(comparison: Comparison, format_name: str, width: int = 80) -> str:
    return "".join(write_comparison(comparison, format_name, Style(), width))


@given(COMPARISONS, st.integers(40, 130))
@examples(60)
def test_the_text_is_safe_and_as_wide_as_it_may_be(comparison: Comparison, width: int) -> None:
    for line in document(comparison, "text", width).split("\n"):
        assert sanitise(line, None) == line
        assert cells(line) <= width
    has_failed = (
        any(gap.is_failure for gap in comparison.gaps) or comparison.old.has_failed or comparison.new.has_failed
    )
    assert document(comparison, "text", 10_000).startswith("Could not be compared: ") is has_failed


@given(COMPARISONS)
def test_every_format_can_be_read(comparison: Comparison) -> None:
    for line in document(comparison, "json").split("\n")[:-1]:
        assert json.loads(line)["type"]
    old, new = comparison.old._replace(warnings=()), comparison.new._replace(warnings=())
    checked(document(comparison._replace(old=old, new=new), "junit"))
    results = run_in(document(comparison, "sarif"))["results"]
    assert len(results) == len(comparison.changes) + len(comparison.accepted_changes)
    *commands, _ = document(comparison, "github").split("\n")[:-1]
    assert all(COMMAND.fullmatch(command) or FAILURE.fullmatch(command) for command in commands)
    markdown = document(comparison, "markdown")
    page = Rendered(markdown)
    assert set(page.elements) <= OURS | {"b"}
    assert "owned" not in "".join(page.outside)
    assert len(markdown) <= MAX_ISSUE_CHARS
