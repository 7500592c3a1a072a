"""Finds the variables in an entry, and replaces them as its client does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy.clients.client import Client
from mcpproxy.clients.machine import Machine

ENVIRONMENT_MEMBERS: Final = ("env", "environment", "envs")
"""The members of an entry that may contain the server's environment."""


class MissingVariable(NamedTuple):
    """A variable in an entry whose value doctor does not know."""

    name: str
    """The name of the variable, or the variable as written if only the client knows its value."""
    member: str
    """The member of the entry that contains it: `env.KEY`, `args`, `url`, …"""

    def __str__(self) -> str:
        """Return the variable and its member, for evidence."""
        return f"{self.name} in {self.member}"


def variable_values(machine: Machine) -> dict[str, str]:
    """Return the values of variables: those in the client's environment, and those that clients define themselves."""
    return {
        **machine.environment,
        "${userHome}": str(machine.home),
        "${workspaceFolder}": str(machine.project),
        "${workspaceFolderBasename}": machine.project.name,
        "${pathSeparator}": os.sep,
        "${/}": os.sep,
    }


def expand_text(text: str, client: Client, values: Mapping[str, str], member: str = "") -> str:
    """Return a text in which variables are replaced by their values; a variable without a value becomes empty.

    Args:
        text: a text in the entry.
        client: the client of the entry.
        values: the values of the variables.
        member: the member of the entry that contains the text; by default, any member except its environment.
    """
    return _replace_variables(text, client, member, lambda match: _value(match, values) or "")


def expand_entry(entry: Any, client: Client, values: Mapping[str, str], member: str = "") -> Any:
    """Return an entry in which variables are replaced by their values; variables without a value stay as they are."""
    if isinstance(entry, dict):
        return {name: expand_entry(value, client, values, member or str(name)) for name, value in entry.items()}
    if isinstance(entry, list):
        return [expand_entry(value, client, values, member) for value in entry]
    if not isinstance(entry, str):
        return entry
    return _replace_variables(
        entry, client, member, lambda match: match[0] if (value := _value(match, values)) is None else value
    )


def unset_variables(entry: Any, client: Client, values: Mapping[str, str]) -> Iterator[MissingVariable]:
    """Yield the variables in an entry that have neither a value nor a default."""
    for member, text in _texts(entry):
        for match in _matches(text, _patterns(client, member)):
            if _value(match, values) is None:
                yield MissingVariable(match["name"], member)


def empty_variables(entry: Any, client: Client, values: Mapping[str, str]) -> Iterator[MissingVariable]:
    """Yield the variables in an entry that have no value and that the client replaces by nothing."""
    for member, text in _texts(entry):
        for match in _matches(text, _patterns(client, member)):
            if match["name"] not in values and _value(match, values) == "":
                yield MissingVariable(match["name"], member)


def unknown_variables(entry: Any, client: Client) -> Iterator[MissingVariable]:
    """Yield the variables in an entry whose values only the client knows."""
    for member, text in _texts(entry):
        for match in _matches(text, client.own_variables):
            yield MissingVariable(match[0], member)


def _texts(value: Any, member: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in an entry, after the member that contains it."""
    if isinstance(value, str):
        yield member, value
    elif isinstance(value, dict):
        for name, inner_value in value.items():
            yield from _texts(inner_value, f"{member}.{name}" if member else str(name))
    elif isinstance(value, list):
        for inner_value in value:
            yield from _texts(inner_value, member)


def _patterns(client: Client, member: str) -> tuple[str, ...]:
    is_environment = member.partition(".")[0] in ENVIRONMENT_MEMBERS
    return client.variables if client.env_variables is None or not is_environment else client.env_variables


def _replace_variables(text: str, client: Client, member: str, replace: Any) -> str:
    """Replace each variable in a text once: variables in values are not replaced."""
    parts, end = [], 0
    for match in _matches(text, _patterns(client, member)):
        parts += [text[end : match.start()], replace(match)]
        end = match.end()
    return "".join([*parts, text[end:]])


def _matches(text: str, patterns: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """Yield the variables in a text from left to right; if two patterns match at a position, use the first."""
    position = 0
    while candidates := [match for pattern in patterns if (match := re.compile(pattern).search(text, position))]:
        first_match = min(candidates, key=lambda match: match.start())
        yield first_match
        position = first_match.end()


def _value(match: re.Match[str], values: Mapping[str, str]) -> str | None:
    value = values.get(match["name"])
    return value if value is not None else match.groupdict().get("default")
