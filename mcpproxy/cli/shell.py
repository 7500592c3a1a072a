"""The SQL shell: a prompt with history and completion, which prints the result of each statement."""

import re
import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

from analysis.store.reference import relations
from analysis.store.sandbox.protocol import Column, QueryError, Value
from mcpproxy.cli.diagnostics import INTERRUPTED, Exit, say, signal_exit_code
from mcpproxy.history import past_statements, remember_statement
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.session import SqlSession, column_rows, relation_of, relation_rows, report_error
from mcpproxy.sql.statements import KEYWORDS, is_complete

PROMPT: Final = "sql> "
CONTINUATION_PROMPT: Final = "...> "

ResultPrinter = Callable[[list[Column], Iterable[tuple[Value, ...]]], None]
"""Prints the columns and rows of a result."""

HELP: Final = """Type SQL, over as many lines as you like, and end it with a semicolon.

  .views      list the views and tables
  .schema V   show the columns of a view or table
  .quit       leave, like exit, quit and Ctrl-D

Ctrl-C stops a query, or discards the input. Tab completes names.
"""

_EXIT_COMMAND: Final = re.compile(r"\s*(?:exit|quit)\s*;?\s*", re.IGNORECASE)
"""Matches `exit` and `quit`, which leave the shell and are not SQL."""


def run_shell(session: SqlSession, *, show: ResultPrinter, describe: ResultPrinter) -> int:
    """Prompt for statements and run them until the input ends; returns the exit code.

    Args:
        session: the SQL session on the captures.
        show: prints the rows of a statement.
        describe: prints lists of views, tables and columns.
    """
    prompt = _Prompt(session, show, describe)
    if sys.stdin.isatty() and sys.stdout.isatty():
        prompt.enable_editing()
    sys.stdout.write("SQL on captures; .help lists the commands\n")
    while prompt.process_line():
        pass
    return int(Exit.FINE)


class _Prompt:
    """A dialogue at the prompt."""

    def __init__(self, session: SqlSession, show: ResultPrinter, describe: ResultPrinter) -> None:
        self._session = session
        self._show, self._describe = show, describe
        self._input = ""
        self._add_to_history: Callable[[str], object] = remember_statement
        """The function that adds a statement to the history."""

    def process_line(self) -> bool:
        """Read and process a line; returns False at the end of the input."""
        try:
            line = input(CONTINUATION_PROMPT if self._input else PROMPT)
        except EOFError:
            sys.stdout.write("\n")
            return False
        except KeyboardInterrupt:
            self._input = ""
            sys.stdout.write("\n")
            return True
        if not self._input and line.strip().startswith("."):
            return self._run_command(line.split())
        if not self._input and _EXIT_COMMAND.fullmatch(line):
            return False
        self._input = f"{self._input}\n{line}" if self._input else line
        if not self._input.strip():
            self._input = ""
        elif is_complete(self._input):
            sql, self._input = self._input, ""
            self._add_to_history(sql)
            self._run_statement(sql)
        return True

    def _run_statement(self, sql: str) -> None:
        try:
            answer = self._session.run_query(sql)
            self._show(answer.columns, answer)
        except QueryError as error:
            sys.stdout.flush()
            report_error(error, say)
        except (KeyboardInterrupt, RuntimeError) as error:
            if signal_exit_code(error) != INTERRUPTED:
                raise
            sys.stdout.flush()
            say("stopped")
        sys.stdout.flush()

    def _run_command(self, words: list[str]) -> bool:
        name, *operands = words
        if name in (".quit", ".exit", ".q"):
            return False
        if name == ".views":
            self._describe(*relation_rows())
        elif name == ".schema" and len(operands) != 1:
            say(".schema takes the name of one view or table; .views lists them")
        elif name == ".schema":
            try:
                self._describe(*column_rows(relation_of(operands[0], ".views")))
            except QueryError as error:
                report_error(error, say)
        elif name == ".help":
            sys.stdout.write(HELP)
        else:
            say(f"there is no command {sanitise(name, 64)}; .help lists them")
        return True

    # ---- history and completion

    def enable_editing(self) -> None:
        """Add history and completion to the prompt, if Python was built with readline."""
        try:
            import readline
        except ImportError:
            return
        readline.set_completer_delims(" \t\n,;()=<>+*/'")
        readline.set_completer(self._complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        # By default, readline remembers every line, including lines that are not SQL.
        readline.set_auto_history(False)
        for statement in past_statements():
            readline.add_history(statement)

        def add_to_history(sql: str) -> None:
            if line := remember_statement(sql):
                readline.add_history(line)

        self._add_to_history = add_to_history

    @cached_property
    def _names(self) -> list[str]:
        """The possible completions: keywords, then the names of all views, tables and columns."""
        names = dict.fromkeys(KEYWORDS.split())
        for relation in relations():
            names |= dict.fromkeys([relation.name, *(column.name for column in relation.columns)])
        return list(names)

    def _complete(self, text: str, number: int) -> str | None:
        qualifier, dot, prefix = text.rpartition(".")
        matches = [name for name in self._names if name.startswith(prefix.lower())] if prefix else []
        return qualifier + dot + matches[number] if number < len(matches) else None
