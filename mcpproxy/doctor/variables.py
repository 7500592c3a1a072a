"""The variables in an entry, replaced as its client replaces them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcpproxy.clients.client import Client


def expanded(text: str, client: Client, variables: Mapping[str, str]) -> str:
    """A text with the values of its variables; one without a value is empty."""
    for pattern in client.variables:
        text = re.sub(pattern, lambda match: _value(match, variables) or "", text)
    return text


def expanded_within(entry: Any, client: Client, variables: Mapping[str, str]) -> Any:
    """An entry with the values of the variables in its texts; those without a value stay as they are."""
    if isinstance(entry, dict):
        return {name: expanded_within(value, client, variables) for name, value in entry.items()}
    if isinstance(entry, list):
        return [expanded_within(value, client, variables) for value in entry]
    if not isinstance(entry, str):
        return entry
    for pattern in client.variables:
        entry = re.sub(pattern, lambda match: match[0] if (value := _value(match, variables)) is None else value, entry)
    return entry


def unset(entry: Any, client: Client, variables: Mapping[str, str]) -> Iterator[str]:
    """The names of the variables in an entry that have neither a value nor a default."""
    if isinstance(entry, str):
        for pattern in client.variables:
            yield from (match["name"] for match in re.finditer(pattern, entry) if _value(match, variables) is None)
    elif isinstance(entry, dict | list):
        for value in entry.values() if isinstance(entry, dict) else entry:
            yield from unset(value, client, variables)


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str | None:
    value = variables.get(match["name"])
    return value if value is not None else match.groupdict().get("default")
