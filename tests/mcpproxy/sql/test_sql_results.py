"""Rows as text: columns fit, control characters are inert, and programs get back what DuckDB returned."""

import csv
import io
import json
import re
import time
from collections.abc import Sequence
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.store.parquet import write_parquet
from analysis.store.sandbox.protocol import Column, QueryError, Value
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.sql_results import (
    MAX_LISTED_ROWS,
    MAX_NAMED_COLUMNS,
    MIN_COLUMN_WIDTH,
    csv_lines,
    csv_text,
    json_lines,
    markdown_lines,
    markdown_text,
    names_of,
    number_text,
    table_lines,
)
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Style

TEXT = Column("text", "VARCHAR")
WHOLE = Column("n", "BIGINT")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
LAID_OUT_S = 1.0
"""The longest time to lay out twenty thousand columns on an idle machine."""


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Value]], width: int = 80) -> list[str]:
    return list(table_lines(columns, rows, width, Style()))


# ---- for people


def test_numbers_stand_at_the_right_and_text_at_the_left() -> None:
    assert lines([TEXT, WHOLE, TEXT], [("a", 1, "x"), ("bbbbbb", 1000, "")]) == [
        "text       n  text",
        "a          1  x",
        "bbbbbb  1000",
        "2 rows",
    ]


def test_null_is_told_from_empty_text() -> None:
    assert lines([TEXT, WHOLE], [(None, None), ("", 0)])[1:3] == ["NULL  NULL", "         0"]


@pytest.mark.parametrize("width", [30, 40, 80, 200])
@given(
    rows=st.lists(st.tuples(TEXTS, st.integers(-(10**6), 10**6), TEXTS, st.none() | st.floats(), TEXTS), max_size=8),
)
def test_a_table_fits_and_says_what_it_leaves_out(width: int, rows: list[tuple[Any, ...]]) -> None:
    columns = [TEXT, WHOLE, Column("more", "VARCHAR"), Column("f", "DOUBLE"), Column("last_one", "VARCHAR")]
    shown = lines(columns, rows, width)
    assert max(map(cells, shown)) <= width
    assert all(sanitise(line, None) == line for line in shown)
    text = " ".join(shown)
    assert all(column.name in text for column in columns)


def test_numbers_are_never_cut() -> None:
    rows = [(f"a long text, number {at}", 10**17 + at, f"another long text, number {at}") for at in range(5)]
    shown = lines([TEXT, WHOLE, TEXT], rows, 50)
    assert all(str(10**17 + at) in shown[at + 1] for at in range(5))


# The names that DuckDB gives to columns without a name: their expressions.
COUNTED = """count_star() FILTER (WHERE (("method" = 'tools/call') AND ("name" IS NOT NULL) AND (dir = 'c2s')))"""
DISTINCT = """count(DISTINCT CASE  WHEN (("method" = 'tools/call')) THEN ("name") ELSE NULL END)"""


def test_the_name_of_a_number_is_cut_where_the_number_is_not() -> None:
    columns = [Column(COUNTED, "BIGINT"), Column(DISTINCT, "BIGINT"), Column("dir", "VARCHAR"), WHOLE]
    rows = [(0, 10**25, "c2s", 1), (8, 3, "s2c", 10**6), (None, 1, "s2c", 3)]
    assert lines(columns, rows) == [
        'count_star() FILTER (WHERE (("m…  count(DISTINCT CASE  WHEN (("me…  dir        n',
        "                               0        10000000000000000000000000  c2s        1",
        "                               8                                 3  s2c  1000000",
        "                            NULL                                 1  s2c        3",
        "3 rows",
    ]
    assert lines(columns[:1], [(7,)], 20) == ["count_star() FILTER…", "                   7", "1 row"]
    assert lines(columns[:1], [], 20) == ["count_star() FILTER…", "0 rows"]


@given(
    st.data(),
    st.lists(st.builds(Column, st.sampled_from([DISTINCT, "n", "界" * 40]), st.sampled_from(["BIGINT", "HUGEINT"]))),
    st.integers(0, 4),
    st.integers(20, 120),
)
def test_no_line_of_numbers_is_wider_than_it_may_be(
    data: st.DataObject, numbers: list[Column], count: int, width: int
) -> None:
    columns = [*numbers, TEXT, Column(DISTINCT, "VARCHAR")]
    texts = st.text("xyz")
    values = st.integers(0, 14).map(lambda digits: 10**digits)
    rows = data.draw(st.lists(st.tuples(*(values for _ in numbers), texts, texts), min_size=count, max_size=count))
    shown = lines(columns, rows, width)
    assert max(map(cells, shown)) <= width
    assert not any(re.search("[0-9]…", line) for line in shown)


def test_of_too_many_columns_the_constant_and_the_last_go_below() -> None:
    columns = [Column(f"column_{at}", "BIGINT") for at in range(12)]
    rows = [[row if at % 2 else 7 for at in range(12)] for row in range(MAX_LISTED_ROWS + 1)]
    shown = lines(columns, rows, 50)
    assert shown[0].split() == ["column_1", "column_3", "column_5", "column_7", "column_9"]
    below = " ".join(shown[5:])
    assert "in all rows: column_0 7, column_2 7" in below
    assert "1 more column" in below
    assert below.endswith("column_11")


STAMP = "2026-11-18 11:06:40.123456789"


def test_times_and_hashes_are_shortened_before_a_column_goes() -> None:
    columns = [Column("time", "TIMESTAMP_NS"), Column("capture", "VARCHAR"), Column("path", "VARCHAR"), TEXT]
    rows = [(STAMP, f"{at:032x}"[::-1], f"/var/captures/{'deep/' * 9}{at}.mcpcap", f"answer {at}") for at in range(4)]
    head, first, *_ = lines(columns, rows)
    assert head.split() == ["time", "capture", "path", "text"]
    assert first.startswith("2026-11-18 11:06:40  00000000  /var/captures/")
    assert first.endswith("/0.mcpcap  answer 0")
    assert STAMP in lines(columns, rows, 200)[1]


def test_a_text_beside_hashes_takes_no_more_room_than_others() -> None:
    rows = [("f" * 32, "a" * 90), ("no hash, and long " * 5, "b" * 90), (None, "c")]
    shown = lines([Column("hash", "VARCHAR"), TEXT], rows)
    assert shown[0].split() == ["hash", "text"]
    assert shown[1].startswith("f" * 32)
    shown = lines([Column("hash", "VARCHAR"), TEXT], [rows[0], (None, "b"), rows[0]])
    assert shown[1].startswith("ffffffff  aaa")


def test_a_long_name_over_hashes_is_cut() -> None:
    rows = [("f" * 32, "a" * 90)] * 3
    shown = lines([Column("a_name_longer_than_that_of_any_table" * 3, "VARCHAR"), TEXT], [*rows, (None, "b")])
    assert shown[0].startswith("a_name_longer_than")
    assert shown[0].endswith("  text")
    assert shown[1].startswith("ffffffff ")


def test_of_columns_without_room_those_that_answer_stay() -> None:
    names = ("time", "capture", "session", "request", "response", "method", "name", "code", "text", "latency_ms")
    columns = [Column(name, "BIGINT" if name in ("session", "request", "response") else "VARCHAR") for name in names]
    rows = [[at * 10**6 if column.kind == "integer" else f"value {at}" * 3 for column in columns] for at in range(4)]
    head, *below = lines(columns, rows, 72)
    assert head.split() == ["request", "method", "name", "code", "text"]
    assert " ".join(below).endswith("them: time, capture, session, response, latency_ms")


def remaining(columns: Sequence[Column], rows: Sequence[Sequence[Value]], width: int) -> list[str]:
    """Returns the names of the columns shown, worked out as by hand: the least useful column is dropped each time."""
    texts = [[column.name for column in columns], *([str(cell) for cell in row] for row in rows)]
    sizes = {at: max(len(row[at]) for row in texts) for at in range(len(columns))}
    firm = {at: max(len(row[at]) for row in texts[1:]) for at in sizes if columns[at].type == "BIGINT"}
    are_hashes = {at: all(re.fullmatch("[0-9a-f]{32}", row[at]) for row in texts[1:]) for at in sizes}

    def takes(least: int | None) -> int:
        each = [size if least is None else min(size, max(firm.get(at, 0), least)) for at, size in sizes.items()]
        return sum(each) + 2 * (len(each) - 1)

    times = [at for at in sizes if columns[at].type == "TIMESTAMP"]
    for at in [*times, *(at for at in sizes if are_hashes[at])]:
        if takes(None) > width:
            sizes[at] = max(len(columns[at].name), 19 if at in times else 8)
            firm[at] = sizes[at] if sizes[at] <= 2 * MIN_COLUMN_WIDTH else 0
    if takes(MIN_COLUMN_WIDTH) > width:
        same = [at for at in sizes if len({row[at] for row in texts[1:]}) == 1]
        sizes = {at: size for at, size in sizes.items() if at not in same or len(same) == len(sizes)}
    going = ("capture", "session", "at_ms", "response", "time")
    while takes(MIN_COLUMN_WIDTH) > width and len(sizes) > 1:
        names = [columns[at].name for at in sizes]
        least = next((name for name in going if name in names), None)
        others = [at for at in sizes if columns[at].name != "text"] or list(sizes)
        del sizes[others[-1] if least is None else list(sizes)[names.index(least)]]
    return [columns[at].name for at in sizes]


LONG = ("a_longer_one", "a_name_that_is_longer", "one_that_is_much_longer_than_any_other_is")
COLUMNS = st.builds(
    Column,
    st.sampled_from(["capture", "session", "at_ms", "response", "time", "text", "a", "bb", "name", *LONG]),
    st.sampled_from(["BIGINT", "TIMESTAMP", "VARCHAR", "HASH"]),
)


@given(st.data(), st.lists(COLUMNS, min_size=1, max_size=14), st.integers(MAX_LISTED_ROWS + 1, 5), st.integers(20, 160))
def test_the_columns_that_stay_are_those_that_are_missed_most(
    data: st.DataObject, wanted: list[Column], count: int, width: int
) -> None:
    values: dict[str, st.SearchStrategy[Value]] = {
        "BIGINT": st.integers(0, 17).map(lambda digits: 10**digits),
        "HASH": st.sampled_from("0f").map(lambda digit: 32 * digit),
        "TIMESTAMP": st.sampled_from(["2026-11-18 11:06:40.5", "2026-11-18 11:06:40.123456"]),
        "VARCHAR": st.sampled_from([1, 8, 11, 12, 13, 40]).map(lambda size: size * "x"),
    }
    rows = data.draw(st.lists(st.tuples(*(values[column.type] for column in wanted)), min_size=count, max_size=count))
    columns = [column._replace(type="VARCHAR") if column.type == "HASH" else column for column in wanted]
    shown, expected = lines(columns, rows, width)[0].split(), remaining(columns, rows, width)
    assert len(shown) == len(expected)
    assert all(
        name == whole or whole.startswith(name.removesuffix("…")) for name, whole in zip(shown, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("BIGINT", [7, 8, 9]),
        ("VARCHAR", ["f" * 32, "0" * 32, "a" * 32]),
        ("TIMESTAMP", ["2026-11-18 11:06:40.5", "2026-11-18 11:06:40", "infinity"]),
    ],
)
def test_twenty_thousand_columns_are_laid_out_quickly(type_: str, values: list[Value]) -> None:
    columns = [Column(f"column_{at}", type_) for at in range(20_000)]
    rows = [[value if at % 2 else values[0] for at in range(len(columns))] for value in values]
    # Processor time: on a busy machine, wall time mostly shows how busy it is.
    began_s = time.process_time()
    shown = lines(columns, rows)
    assert time.process_time() - began_s < 10 * LAID_OUT_S
    assert shown[0].startswith("column_1 ")
    below = " ".join(shown[5:])
    assert re.search(
        rf"in all rows: column_0 .*, column_{2 * MAX_NAMED_COLUMNS - 2} [^,]* and {10_000 - MAX_NAMED_COLUMNS:,} more ",
        below,
    )
    assert below.endswith(" more")
    assert len(shown) < 2 * MAX_NAMED_COLUMNS


def test_few_wide_rows_are_lists() -> None:
    columns = [Column(f"column_{at}", "BIGINT") for at in range(12)]
    assert lines(columns, [list(range(12))], 50)[:3] == ["row 1", "  column_0   0", "  column_1   1"]


def test_few_rows_are_lists_where_names_of_numbers_would_be_cut() -> None:
    columns = [Column(COUNTED, "BIGINT"), Column(DISTINCT, "HUGEINT"), Column("dir", "VARCHAR")]
    assert lines(columns, [(8, 10**38, "c2s")]) == [
        "row 1",
        '  count_star() FILTER (WHERE (("method…  8',
        '  count(DISTINCT CASE  WHEN (("method"…  100000000000000000000000000000000000000',
        "  dir                                    c2s",
        "1 row",
    ]


@pytest.mark.parametrize("width", range(20, 40))
def test_a_list_fits(width: int) -> None:
    columns = [Column(name, "VARCHAR") for name in (COUNTED, DISTINCT, "dir")]
    shown = lines(columns, [("x" * 40, "/y" * 40, 40 * "界")], width)
    assert shown[0] == "row 1"
    assert max(map(cells, shown)) <= width


def test_later_rows_may_be_wider_than_the_first_thousand() -> None:
    rows = [("x", 1)] * 1000 + [("y" * 500, 10**12)]
    shown = lines([TEXT, WHOLE], rows)
    assert shown[1] == "x     1"
    assert str(10**12) in shown[1001]
    assert len(shown) == 1003


@pytest.mark.parametrize(
    ("name", "type_", "value", "shown"),
    [
        ("t_ns", "BIGINT", 412_000, "0.41 ms"),
        ("t_ns", "BIGINT", 41_200_000, "41.2 ms"),
        ("t_ns", "BIGINT", 12_345_000_000, "12,345 ms"),
        ("t_ns", "BIGINT", 134_500_000_000, "134,500 ms"),
        ("t_ns", "BIGINT", -11_107_250_000_000, "-11,107,250 ms"),
        ("p50_ms", "DOUBLE", 0.4231, "0.42"),
        ("p50_ms", "DOUBLE", 41.23, "41.2"),
        ("p50_ms", "DOUBLE", 1920.4, "1,920"),
        ("share", "DOUBLE", 1 / 3, "0.333333"),
        ("share", "DOUBLE", nan, "nan"),
        ("share", "DOUBLE", -inf, "-inf"),
        ("n", "BIGINT", 1234567, "1234567"),
        ("n", "DECIMAL(9,2)", Decimal("1.50"), "1.50"),
        ("ok", "BOOLEAN", False, "false"),
        ("raw", "BLOB", b"\x1b[2J\xff", r"\x1b[2J\xff"),
        ("text", "VARCHAR", "\x1b]52;c;x\x07\u202e\n", r"\x1b]52;c;x\x07\u202e\n"),
    ],
)
def test_values_for_people(name: str, type_: str, value: Value, shown: str) -> None:
    assert lines([Column(name, type_)], [(value,)])[1].strip() == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_six_digits(value: float) -> None:
    assert float(number_text(value)) == pytest.approx(value, rel=1e-5)


def test_names_of_columns_are_foreign_too() -> None:
    assert lines([Column("\x1b[2J", "BIGINT")], [(1,)])[0] == r"\x1b[2J"


# ---- JSON


def test_json_keeps_every_value() -> None:
    columns = [
        Column("i", "HUGEINT"),
        Column("d", "DECIMAL(38,2)"),
        Column("f", "DOUBLE"),
        Column("b", "BLOB"),
        Column("o", "BOOLEAN"),
        Column("t", "TIMESTAMP_NS"),
        Column("j", "JSON"),
        Column("l", "INTEGER[]"),
        Column("v", "VARCHAR"),
    ]
    row = (
        2**100,
        Decimal("1.50"),
        0.1,
        b"\0\xff",
        True,
        "2026-11-21 10:20:30.5",
        '{"a": 1.10,\n"b": "\\u0000"}',
        "[1,null]",
        'é"\n',
    )
    (line,) = json_lines(columns, [row])
    assert "\n" not in line
    assert '"i":1267650600228229401496703205376,"d":1.50,"f":0.1,"b":"AP8=","o":true' in line
    assert '"t":"2026-11-21T10:20:30.5Z","j":{"a": 1.10, "b": "\\u0000"},"l":[1,null]' in line
    assert json.loads(line)["v"] == 'é"\n'


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        ("DOUBLE", nan, None),
        ("DOUBLE", inf, None),
        ("BIGNUM", Decimal("NaN"), None),
        ("JSON", "NaN", None),
        ("DOUBLE[]", "[NaN, 1]", [None, 1]),
        ("JSON", "no json", "no json"),
        ("JSON", "[" * 5000, "[" * 5000),
        ("TIMESTAMP", "infinity", "infinity"),
        ("TIMESTAMP WITH TIME ZONE", "2026-11-21 10:20:30+00", "2026-11-21T10:20:30Z"),
        ("TIMESTAMPTZ_NS", "2026-11-21 10:20:30.123456789+00", "2026-11-21T10:20:30.123456789Z"),
        ("DATE", "2026-11-21", "2026-11-21"),
        ("INTERVAL", "2 days", "2 days"),
        ("VARCHAR", None, None),
    ],
)
def test_what_json_has_no_word_for(type_: str, value: Value, written: object) -> None:
    (line,) = json_lines([Column("a", type_)], [(value,)])
    assert json.loads(line, parse_constant=lambda word: pytest.fail(word)) == {"a": written}


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        ("TIMESTAMP_NS[]", '["@",null,"infinity"]', '["#",null,"infinity"]'),
        ("TIMESTAMP WITH TIME ZONE[][3]", '[["@+00"],null,[]]', '[["#"],null,[]]'),
        ("TIMESTAMPTZ_NS[]", '["@+00"]', '["#"]'),
        ("STRUCT(t TIMESTAMP, v VARCHAR, u TIMESTAMP)", '{"t":"@","v":"@","u":null}', '{"t":"#","v":"@","u":null}'),
        (
            "STRUCT(s STRUCT(t TIMESTAMP)[], n HUGEINT)[]",
            '[{"s":[{"t":"@"}],"n":1E99}]',
            '[{"s":[{"t":"#"}],"n":1E99}]',
        ),
        (
            'STRUCT("a ""b), TIMESTAMP" TIMESTAMP, b DATE)',
            '{"a \\"b), TIMESTAMP":"@","b":"@"}',
            '{"a \\"b), TIMESTAMP":"#","b":"@"}',
        ),
        ("STRUCT(TIMESTAMP VARCHAR)", '{"TIMESTAMP":"@"}', '{"TIMESTAMP":"@"}'),
        ("STRUCT(j JSON, t TIMESTAMP)", '{"j":{"t":"@","t":["@"]},"t":"@"}', '{"j":{"t":"@","t":["@"]},"t":"#"}'),
        ("MAP(TIMESTAMP, VARCHAR)", '{"@":"@"}', '{"#":"@"}'),
        ("MAP(VARCHAR, TIMESTAMP)", '{"@":"@"}', '{"@":"#"}'),
        ("TUPLE(DECIMAL(18,3), ENUM('a(', 'b'), TIMESTAMP)", '[1.500,"a(","@"]', '[1.500,"a(","#"]'),
        ("UNION(n INTEGER, t TIMESTAMP)", '{"t":"@"}', '{"t":"#"}'),
        ("TIMESTAMP[]", '["@"] ["@"]', '"[\\"@\\"] [\\"@\\"]"'),
        ("STRUCT(t TIMESTAMP)", "{[]:1}", '"{[]:1}"'),
        ("STRUCT(f DOUBLE, t TIMESTAMP)", '{"f":NaN,"t":"@"}', '{"f": null, "t": "#"}'),
    ],
)
def test_timestamps_are_utc_wherever_they_stand(type_: str, value: str, written: str) -> None:
    value, written = (text.replace("@", "2026-11-21 10:20:30.5") for text in (value, written))
    (line,) = json_lines([Column("a", type_)], [(value,)])
    assert line == f'{{"a":{written.replace("#", "2026-11-21T10:20:30.5Z")}}}'


@given(st.text("TIMESTAMPUCR \"'(),[]ab", max_size=30) | st.just("STRUCT(a " * 5000), st.text('{}[]",:ab0 '))
def test_a_type_that_is_none_hides_no_value(type_: str, value: str) -> None:
    (line,) = json_lines([Column("a", f"STRUCT(t TIMESTAMP, {type_}]")], [(value,)])
    assert set(json.loads(line)) == {"a"}


def test_an_integer_that_is_wider_than_its_type_keeps_its_digits() -> None:
    (line,) = json_lines([WHOLE, WHOLE, TEXT], [(2**70, None, "x")])
    assert line == '{"n":1180591620717411303424,"n_2":null,"text":"x"}'


@given(st.lists(st.sampled_from(["a", "A", "b", "a_2", ""]), max_size=8))
def test_names_come_once(names: list[str]) -> None:
    made = names_of(Column(name, "BIGINT") for name in names)
    assert len({name.casefold() for name in made}) == len(names)


# ---- CSV


@given(st.lists(st.tuples(TEXTS, st.none() | st.integers(), TEXTS), max_size=8))
def test_csv_reads_back(rows: list[tuple[Any, ...]]) -> None:
    text = "".join(csv_lines([TEXT, WHOLE, Column("b", "VARCHAR")], rows))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[0] == ["text", "n", "b"]
    given = [[a, "" if n is None else str(n), b] for a, n, b in rows]
    # A quote precedes what would be a formula, and nothing else.
    assert [[re.sub(r"^'(?=[=+\-@\t\r\n＝＋－＠])", "", cell) for cell in row] for row in read[1:]] == [
        [re.sub(r"^'(?=[=+\-@\t\r\n＝＋－＠])", "", cell) for cell in row] for row in given
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "=cmd|' /C calc'!A0"])
def test_no_text_is_a_formula(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(csv_text(text), newline="")))
    assert cell == f"'{text}"
    for separator in (";", "\t", "|"):
        for part in csv.reader(io.StringIO(csv_text(f"x{separator}{text}"), newline=""), delimiter=separator):
            assert not any(piece.startswith(("=", "+", "@")) for piece in part)


def test_numbers_stay_numbers_and_null_is_told_from_empty_text() -> None:
    columns = [WHOLE, Column("f", "DOUBLE"), TEXT, Column("raw", "BLOB"), TEXT]
    rows = [(-5, -0.5, "", b"+", None), (None, nan, "a b", b"", "x,y")]
    assert "".join(csv_lines(columns, rows)) == ('n,f,text,raw,text_2\r\n-5,-0.5,"",2b,\r\n,nan,a b,,"x,y"\r\n')


# ---- Markdown


@given(TEXTS)
def test_markdown_holds_no_markup(text: str) -> None:
    shown = markdown_text(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|~!](?!-- -->)(?<!<)", shown.replace("<!-- -->", ""))
    assert "\n" not in shown
    assert "://" not in shown


def test_markdown_is_a_table() -> None:
    rows = [("a|b", 1), ("[x](http://y) <b> www.z.org @me", None)]
    assert list(markdown_lines([TEXT, WHOLE], rows)) == [
        "| text | n |",
        "|---|---:|",
        r"| a\|b | 1 |",
        r"| \[x\]\(http&#58;//y\) \<b\> www&#46;z.org &#64;<!-- -->me |  |",
    ]


# ---- Parquet


def test_parquet_is_not_written_when_its_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="the time of a query was over") as caught:
        write_parquet(tmp_path / "a", [WHOLE], ["n"], ((n,) for n in range(500_000)), time.monotonic() - 1)
    assert caught.value.kind == "timeout"


def test_parquet_keeps_types_and_values(tmp_path: Path) -> None:
    columns = [
        Column("i", "HUGEINT"),
        Column("t", "TIMESTAMP_NS"),
        Column("z", "TIMESTAMP WITH TIME ZONE"),
        Column("d", "DECIMAL(10,2)"),
        Column('a "b', "VARCHAR"),
        Column('a "B', "BLOB"),
        Column("l", "STRUCT(a INTEGER)"),
        Column("odd", "ENUM('x'); drop table answer; --"),
    ]
    rows = [
        (1, "2026-11-21 10:20:30.123456789", "2026-11-21 10:20:30+00", Decimal("1.50"), "x", b"\xff", '{"a":1}', "x"),
        (None,) * 8,
    ]
    path = tmp_path / "an answer's.parquet"
    write_parquet(path, columns, names_of(columns), iter(rows * 3000))
    with duckdb.connect() as connection:
        described = connection.execute("describe from read_parquet(?)", [str(path)]).fetchall()
        assert [row[:2] for row in described[:6]] == [
            ("i", "DECIMAL(38,0)"),  # Parquet has no wider integer
            ("t", "TIMESTAMP_NS"),
            ("z", "TIMESTAMP WITH TIME ZONE"),
            ("d", "DECIMAL(10,2)"),
            ('a "b', "VARCHAR"),
            ('a "B_2', "BLOB"),
        ]
        read = connection.execute("select t::varchar, d, l, odd from read_parquet(?)", [str(path)]).fetchall()
        assert len(read) == 6000
        assert read[:2] == [("2026-11-21 10:20:30.123456789", Decimal("1.50"), '{"a":1}', "x"), (None,) * 4]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
