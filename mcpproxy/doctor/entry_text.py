"""Formats the words of a command as they would appear in a client's file, for advice."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mcpproxy.clients.servers import Server


def split_entry_text(server: Server, words: Sequence[str]) -> str:
    """Return the advice on what to write into an entry in place of a command line that is a single string.

    Args:
        server: the entry.
        words: the words of the command line.
    """
    form = server.stdio_form
    if form is None:
        return "write only the program as its command, and each argument as a separate string"
    quoted_words = ", ".join(map(_quote, words))
    if server.wrapped_command is not None:
        return (
            f"replace {_quote(server.wrapped_command.server_command[0])} with {quoted_words} in its "
            f"{(form.args or form.command)[-1]}"
        )
    if form.args is None:
        rest_text = ", followed by the words that are already there" if server.words[1:] else ""
        return f"write {_member(server, form.command[-1], f'[{quoted_words}]')}{rest_text}"
    command = _member(server, form.command[-1], _quote(words[0]))
    args = _member(server, form.args[-1], f"[{', '.join(map(_quote, words[1:]))}]")
    rest_text = f", followed by what {form.args[-1]} contains now" if server.words[1:] else ""
    return f"write {command}, {args}{rest_text}"


def _member(server: Server, name: str | int, value: str) -> str:
    separators = {"toml": f"{name} = ", "yaml": f"{name}: "}
    return separators.get(server.config.format, f'"{name}": ') + value


def _quote(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)
