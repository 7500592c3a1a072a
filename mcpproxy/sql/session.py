"""Runs SQL on captures: loads them and queries a sandbox, which it restarts when necessary."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self

from analysis.store.open import Source, delete_damaged, sources
from analysis.store.reference import Relation, relations, view_texts
from analysis.store.sandbox.parent import Limits, QueryRows, Sandbox
from analysis.store.sandbox.protocol import Column, QueryError, Value
from analysis.store.stats import SELECT_LOSSES, Loss
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text, guesses_text, lost_text, unrecorded_text
from mcpproxy.wording.units import size

_CREATE_KEYWORD: Final = re.compile(r"\bcreate\b", re.IGNORECASE)
MIN_SHOWN_LOAD_S: Final = 0.5
"""The time that loading must take before its progress is shown."""
MAX_ERROR_LINES: Final = 12
"""The maximum number of lines of an error that are shown."""


class SqlSession:
    """A set of captures, and the process that runs queries on them."""

    def __init__(
        self,
        paths: Iterable[Path],
        limits: Limits,
        *,
        hear: Callable[[str], None],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Prepare a session; the first query loads the captures.

        Args:
            paths: the captures.
            limits: the resource limits of a query.
            hear: called with a line for each capture that could not be read, or whose rows are incomplete.
            progress: called with the progress of loading; None to show it as a line on the terminal.
        """
        self._paths = list(paths)
        self._limits = limits
        self._report, self._progress = hear, progress
        self._reported: set[str] = set()
        self._sources: list[Source] = []
        self._sandbox: Sandbox | None = None
        self._has_findings = False
        self._has_created = False
        """Whether tables, views or macros may have been created in the sandbox, which are lost with it."""
        self.is_incomplete = False
        """Whether a capture could not be read, or is damaged; both have been reported."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def run_query(self, sql: str, *, counts_reader: bool = False) -> QueryRows:
        """Run statements; returns the result of the last one.

        The rules run when a query needs findings, and not before.

        Args:
            sql: the statements.
            counts_reader: whether the time in which the caller reads the rows counts towards the time limit;
                it should not if a person reads them.

        Raises:
            QueryError: a statement was refused, failed, or exceeded a limit.
        """
        findings = self._has_findings or bool(set(re.findall(r"\w+", sql.lower())) & self._finding_relations)
        try:
            return self._run(sql, findings=findings, counts_reader=counts_reader)
        except QueryError as error:
            if not self._delete_damaged_cache(error):
                raise
        return self._run(sql, findings=findings, counts_reader=counts_reader)

    def _run(self, sql: str, *, findings: bool, counts_reader: bool) -> QueryRows:
        if self._sandbox is None or not self._sandbox.is_alive or findings != self._has_findings:
            if self._has_created:
                self._report("tables, views and macros created so far are gone: the captures were reopened")
                self._has_created = False
            self.close()
            self._sandbox = self._open_sandbox(findings=findings)
            self._has_findings = findings
        self._has_created = self._has_created or bool(_CREATE_KEYWORD.search(sql))
        result = self._sandbox.run_query(sql, counts_reader=counts_reader)
        # A damaged file is usually detected before the first row, and then the query can be restarted.
        rows = iter(result)
        first_rows = list(islice(rows, 1))
        return QueryRows(result.columns, self._watched_rows(chain(first_rows, rows)), result.until_s)

    def _watched_rows(self, rows: Iterator[tuple[Value, ...]]) -> Iterator[tuple[Value, ...]]:
        try:
            yield from rows
        except QueryError as error:
            if self._delete_damaged_cache(error):
                raise QueryError("cache", "a damaged cache file was deleted; run the query again") from error
            raise

    def _delete_damaged_cache(self, error: QueryError) -> bool:
        """Delete damaged cache files, if an error reports damage; returns whether there were any."""
        is_damaged = delete_damaged(self._sources, error)
        if is_damaged:
            self.close()
        return is_damaged

    @cached_property
    def _finding_relations(self) -> set[str]:
        """The relations that need findings, and have no rows until the rules have run."""
        return {"findings"} | {name for name, text in view_texts().items() if re.search(r"\bfindings\b", text)}

    def _open_sandbox(self, *, findings: bool) -> Sandbox:
        progress_line = ProgressLine()
        report_progress = self._progress or progress_line.update
        with progress_line if self._progress is None else nullcontext():
            readable_sources, refusals, duplicate_notes = sources(
                self._paths, findings=findings, progress=report_progress, memory=self._limits.memory
            )
            self._sources = readable_sources
            sandbox = Sandbox(readable_sources, findings=findings, limits=self._limits, progress=report_progress)
        try:
            reasons = [*(str(error) for _, error in refusals), *(text for _, text in sandbox.refused)]
            self.is_incomplete = bool(reasons)
            for reason in (*cache_size_warning(), *duplicate_notes, *reasons):
                self._report_once(reason)
            if self._paths and len(readable_sources) == len(sandbox.refused):
                raise QueryError("captures", "no capture could be read, so there is nothing to query")
            losses = [Loss(*row) for row in sandbox.run_query(SELECT_LOSSES)]  # type: ignore[arg-type]  # of mcpproxy's own tables
            self.is_incomplete = (
                report_losses(losses, "results cover the rest", self._report_once) or self.is_incomplete
            )
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def _report_once(self, line: str) -> None:
        """Report a line only once: at the prompt, captures are opened more than once."""
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)


def cache_size_warning() -> list[str]:
    """Returns a line of warning if MCPPROXY_CACHE_SIZE is not a valid size, so that the default is used; else none."""
    text = os.environ.get("MCPPROXY_CACHE_SIZE", "").strip()
    if not text or re.fullmatch(r"\d{1,15}[KMGT]?(?:i?B)?", text, re.IGNORECASE):
        return []
    return [f"MCPPROXY_CACHE_SIZE={sanitise(text, 64)} is not a size such as 500M, 10G or 0; the default of 2G is used"]


def report_losses(losses: Iterable[Loss], consequence: str, report: Callable[[str], None]) -> bool:
    """Report what each capture lacks, and the consequence; returns whether any capture is damaged."""
    is_damaged = False
    for path, damage, lost, forgotten, begins_at, unrecorded, guesses in losses:
        is_damaged = is_damaged or damage > 0
        problems = [begins_text(begins_at)] if begins_at else []
        problems += [f"{size(damage)} of damage"] if damage else []
        problems += [lost_text(lost)] if lost else []
        problems += [unrecorded_text(unrecorded)] if unrecorded else []
        problems += (
            [f"{forgotten:,} requests or other things forgotten, because too many were open at once"]
            if forgotten
            else []
        )
        advice = " (`mcpproxy verify` says which)" if lost else " (`mcpproxy check` says which)" if forgotten else ""
        advice = " (`mcpproxy repair` copies everything intact)" if damage else advice
        if problems:
            report(f"▲ {sanitise(path)}: {', '.join(problems)}; {consequence}{advice}")
        if guesses:
            report(f"▲ {sanitise(path)}: {guesses_text(guesses)}; figures of single sessions are guesses there")
    return is_damaged


class ProgressLine:
    """A line about loading, shown if stderr is a terminal and loading is slow."""

    def __init__(self) -> None:
        self._is_enabled = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._start_s = time.monotonic()
        self._shown_text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown_text:
            sys.stderr.write("\r" + " " * len(self._shown_text) + "\r")
            sys.stderr.flush()

    def update(self, done: int, total: int) -> None:
        """Report that `done` of `total` is loaded."""
        if not self._is_enabled or time.monotonic() - self._start_s < MIN_SHOWN_LOAD_S:
            return
        text = f"loading {min(100, 100 * done // max(total, 1))}% of {size(total)}"
        if text != self._shown_text:
            sys.stderr.write("\r" + text.ljust(len(self._shown_text)))
            sys.stderr.flush()
            self._shown_text = text


Rows = list[tuple[str, ...]]


def relation_rows() -> tuple[list[Column], Rows]:
    """The tables and views, as a query result."""
    columns = [Column(name, "VARCHAR") for name in ("name", "kind", "what a row is")]
    return columns, [(relation.name, "view" if relation.is_view else "table", relation.row) for relation in relations()]


def column_rows(relation: Relation) -> tuple[list[Column], Rows]:
    """The columns of a view or table, as a query result."""
    columns = [Column(name, "VARCHAR") for name in ("column", "type", "meaning")]
    return columns, [(column.name, column.type.lower(), column.meaning) for column in relation.columns]


def relation_of(name: str, listed_by: str) -> Relation:
    """The view or table with a name.

    Args:
        name: the name, in upper or lower case.
        listed_by: the command that lists them all, for the error message.

    Raises:
        QueryError: there is no view or table with this name.
    """
    by_name = {relation.name: relation for relation in relations()}
    if name.lower() not in by_name:
        text = f"there is no view or table {sanitise(name, 64)}; {listed_by} lists them"
        raise QueryError("catalog", text, get_close_matches(name.lower(), by_name, 3))
    return by_name[name.lower()]


def report_error(error: QueryError, report: Callable[[str], None]) -> None:
    """Report why a query failed, line by line."""
    lines = error_lines(error)
    kind = "permission" if _REFUSAL.search(str(error)) else error.kind
    if kind in _ADVICE:
        lines = [*lines, _ADVICE[kind]] if kind == "permission" else [f"{lines[0]}; {_ADVICE[kind]}"]
    for line in lines:
        report(line)


def error_lines(error: QueryError) -> list[str]:
    """Why a query failed: DuckDB's message, with a mark under the position of the error, and suggestions."""
    lines = [sanitise(line, 200) for line in str(error).split("\n") if line.strip()][:MAX_ERROR_LINES]
    # DuckDB makes suggestions itself, which are good if it knows the relation.
    if error.nearest and f'"{error.nearest[0]}"' not in str(error):
        lines.append(f"nearest names here: {', '.join(sanitise(name, 100) for name in error.nearest)}")
    return lines


# Not every refusal is a permission error: secrets and extension functions are reported as unknown.
_REFUSAL: Final = re.compile(r"configuration has been locked|exists in the \w+ extension|non-existent secret")
_ADVICE: Final = {
    "permission": "a query reads captures and nothing else: it may SELECT, and make tables, views and macros in its "
    "own memory, without files, network, settings, secrets and extensions; `-o FILE` writes its answer to a file",
    "memory": "query less at once, or raise --memory",
    "timeout": "query less at once, or raise --timeout",
}
