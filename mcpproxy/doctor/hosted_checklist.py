"""The checklist of a hosted client, and what no check on this machine can show."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mcpproxy.clients.hosted import HostedClient, Requirement

INVISIBLE: Final = (
    "how the host name resolves for the client",
    "firewalls and lists of allowed addresses in front of the server",
    "the login itself and all that comes after it",
    "calls of tools: their duration and the size of results",
)
"""What no request from this machine shows."""


class Checklist(NamedTuple):
    """The requirements of one hosted client: those that were checked, and those that could not be."""

    client: HostedClient
    checked: tuple[Requirement, ...]
    """The requirements that were checked, whether or not they are met."""
    unchecked: tuple[tuple[Requirement, str], ...]
    """The requirements that could not be checked, each with the reason."""

    def as_json(self) -> dict[str, Any]:
        """Returns the checklist as members of a JSON object."""
        return {
            "title": self.client.title,
            "as_of": self.client.as_of,
            "checked": [
                {"requirement": each.kind, "text": each.text, "source": each.source, "read": each.read}
                for each in self.checked
            ],
            "not_checked": [{"requirement": each.kind, "reason": reason} for each, reason in self.unchecked],
            "invisible": list(INVISIBLE),
        }
