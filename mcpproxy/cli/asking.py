"""Captures that can be asked in SQL: found, loaded, and a jail over them that is made anew when it has to be."""

import os
import re
import sys
import time
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from analysis.store.jail import Answer, Jail, Limits
from analysis.store.messages import Column, QueryError
from analysis.store.open import sources
from analysis.store.reference import Relation, relations, view_texts
from mcpproxy.cli.diagnostics import say
from mcpproxy.report.text import count_text
from mcpproxy.report.units import size
from mcpproxy.sanitise import sanitise

SILENT_S: Final = 0.5
"""Loading that takes no longer is not worth a word."""
ERROR_LINES: Final = 12


class Asking:
    """Some captures, and the process that answers about them."""

    def __init__(self, paths: Iterable[Path], limits: Limits) -> None:
        """Nothing is loaded before something is asked."""
        self._paths = list(paths)
        self._limits = limits
        self._jail: Jail | None = None
        self._has_findings = False
        self.is_spoiled = False
        """Whether a capture could not be read, or is damaged: both have been told."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._jail is not None:
            self._jail.close()
            self._jail = None

    def ask(self, sql: str) -> Answer:
        """Run statements; the answer is that of the last.

        The rules run when something is asked that needs findings, and not before.

        Raises:
            QueryError: it was refused, failed, or took more than it may.
        """
        findings = self._has_findings or bool(set(re.findall(r"\w+", sql.lower())) & self._of_findings)
        if self._jail is None or not self._jail.is_alive or findings != self._has_findings:
            self.close()
            self._jail = self._opened(findings=findings)
            self._has_findings = findings
        return self._jail.ask(sql)

    @cached_property
    def _of_findings(self) -> set[str]:
        """The names that make sense only when the rules have run."""
        return {"findings"} | {name for name, text in view_texts().items() if re.search(r"\bfindings\b", text)}

    def _opened(self, *, findings: bool) -> Jail:
        is_first, self.is_spoiled = not self.is_spoiled, False
        with Progress() as progress:
            found, refused = sources(self._paths, findings=findings, progress=progress.tell)
            jail = Jail(found, findings=findings, limits=self._limits, progress=progress.tell)
        try:
            reasons = [*(str(error) for _, error in refused), *(why for _, why in jail.refused)]
            self.is_spoiled = bool(reasons)
            for reason in reasons if is_first else ():
                say(reason)
            if self._paths and len(found) == len(jail.refused):
                raise QueryError("captures", "no capture could be read, so there is nothing to ask")
            self._tell_of_losses(jail, aloud=is_first)
        except BaseException:
            jail.close()
            raise
        return jail

    def _tell_of_losses(self, jail: Jail, *, aloud: bool) -> None:
        """Say what is missing in the answers to come."""
        for path, damage, lost, is_torn in jail.ask(_LOSSES):
            assert isinstance(damage, int)
            assert isinstance(lost, int)
            is_damaged = damage > 0 and not is_torn
            self.is_spoiled = self.is_spoiled or is_damaged
            if aloud and (is_damaged or lost):
                losses = [f"{size(damage)} are no records"] if is_damaged else []
                losses += [f"{count_text(lost, 'record')} lost"] if lost else []
                advice = "`mcpproxy repair` copies what is whole" if is_damaged else "`mcpproxy verify` tells when"
                say(f"▲ {sanitise(str(path))}: {', '.join(losses)}; answers are about the rest ({advice})")


# What a recorder left that was killed, or is at work, ends in the middle of a record. That is no damage, and every
# command passes over it.
_LOSSES: Final = """
select path, damage, lost, is_live or (ending is null and lost = 0) from captures where damage > 0 or lost > 0
order by path
"""


class Progress:
    """One line on stderr about loading, where that is a terminal and loading takes its time."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._since = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * len(self._shown) + "\r")
            sys.stderr.flush()

    def tell(self, done: int, total: int) -> None:
        """So much of so much is loaded."""
        if not self._is_seen or time.monotonic() - self._since < SILENT_S:
            return
        text = f"loading {min(100, 100 * done // max(total, 1))}% of {size(total)}"
        if text != self._shown:
            sys.stderr.write("\r" + text.ljust(len(self._shown)))
            sys.stderr.flush()
            self._shown = text


Rows = list[tuple[str, ...]]


def views() -> tuple[list[Column], Rows]:
    """What there is to ask, as an answer."""
    columns = [Column(name, "VARCHAR") for name in ("name", "kind", "what a row is")]
    return columns, [(one.name, "view" if one.is_view else "table", one.row) for one in relations()]


def schema(relation: Relation) -> tuple[list[Column], Rows]:
    """The columns of a view or table, as an answer."""
    columns = [Column(name, "VARCHAR") for name in ("column", "type", "meaning")]
    return columns, [(column.name, column.type.lower(), column.meaning) for column in relation.columns]


def relation_of(name: str) -> Relation:
    """The view or table of that name.

    Raises:
        QueryError: there is none.
    """
    found = {relation.name: relation for relation in relations()}
    if name.lower() not in found:
        text = f"there is no view or table {sanitise(name, 64)}; --views lists them"
        raise QueryError("catalog", text, get_close_matches(name.lower(), found, 3))
    return found[name.lower()]


def tell(error: QueryError) -> None:
    """Say why there is no answer: in DuckDB's words, with its mark under the place, and what may have been meant."""
    lines = [line for line in str(error).split("\n") if line.strip()]
    for line in lines[:ERROR_LINES]:
        say(sanitise(line, 200))
    # DuckDB has guesses of its own, good ones where the relation is known.
    if error.nearest and f'"{error.nearest[0]}"' not in str(error):
        say(f"nearest names here: {', '.join(sanitise(name, 100) for name in error.nearest)}")
    if error.kind == "permission":
        say("a query reads captures and nothing else; `-o FILE` writes its answer to a file")
    elif error.kind == "memory":
        say("ask for less at once, or allow more with --memory")
    elif error.kind == "timeout":
        say("ask for less at once, or allow more with --timeout")
