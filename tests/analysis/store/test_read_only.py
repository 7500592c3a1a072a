"""Telling statements that would change a capture from those that change only a query's own objects."""

import duckdb
import pytest

from analysis.store.sandbox.protocol import QueryError
from analysis.store.sandbox.read_only import refuse_changes

OURS = {"frames", "calls"}


def test_no_statement_changes_a_capture() -> None:
    for sql, what in (
        ("delete from frames", "delete from frames"),
        ('DELETE /* all */ FROM main."Frames" where 1 = 1', "delete from frames"),
        ("delete from memory.main.calls", "delete from calls"),
        ("insert into frames select * from frames", "insert into frames"),
        ("insert or replace into calls select 1", "insert or replace into calls"),
        ("update calls set name = 'x'", "update calls"),
        ("truncate table frames", "truncate table frames"),
        ("merge into frames using t on (true) when matched then delete", "merge into frames"),
        ("drop view if exists calls", "drop view if exists calls"),
        ("alter table frames rename to x", "alter table frames"),
        ("comment on column frames.seq is 'x'", "comment on column frames"),
        ("select 1; delete from frames", "delete from frames"),
        ("with w as (delete from frames returning *) select * from w", "delete from frames"),
        ("explain analyze delete from frames", "delete from frames"),
        ("prepare p as update frames set seq = 1", "update frames"),
        ("delete from 'frames'", "delete from frames"),
        ("drop table 'Frames'", "drop table frames"),
        ("delete\u00a0from\u2003frames", "delete from frames"),
        ("create or replace table frames as select 1 as seq", "create or replace table frames"),
        ("create or replace temp view calls as select 1 as seq", "create or replace temp view calls"),
    ):
        with pytest.raises(QueryError) as refused:
            refuse_changes(duckdb.extract_statements(sql), OURS)
        assert str(refused.value) == f"captures are read-only, so no query can {what}", sql


def test_queries_change_what_they_made() -> None:
    for sql in (
        "create table t as select * from frames; insert into t select * from frames; delete from t; drop table t",
        "delete from t where a in (select seq from frames)",
        "select 'delete from frames' as a, frames from captures -- delete from frames",
        "select 1 as update, frames from captures",
        "insert into t select 1 on conflict do update set a = 2",
        "create temp view mine as from calls",
        "select 1 as delete from frames",
        'select 1 as "delete from frames"',
        "select seq drop from frames limit 1",
        "alter table t drop column frames",
        "insert into temp.frames values (1)",
        "drop macro frames",
        "insert into t values ('; delete from frames')",
    ):
        refuse_changes(duckdb.extract_statements(sql), OURS)
