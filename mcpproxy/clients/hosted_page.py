"""Generates the part of docs/clients.md about hosted clients from their table."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.clients.hosted import HOSTED_CLIENTS, INFORMATIVE, NOT_FOUND, HostedClient, Requirement

_OPENING: Final = """\
## Hosted clients

Hosted clients call a server from the internet, so there is no file to route. What they require of a server is checked
by [`mcpproxy doctor URL --as NAME`](commands/doctor.md#a-server-for-hosted-clients). This part is generated from
`mcpproxy/clients/hosted.py`. Every row has a public source, and the day on which it was read: in a stored copy of the
page or in a public quotation of it, which may be older. Requirements without a check are marked `–`: they show only in
a login, in a call of a tool, or in the client's own network.
"""


def hosted_section() -> Iterator[str]:
    """Yields the lines of the section."""
    yield _OPENING
    yield from ("| client | name | requires | check | source | read |", "|---|---|---|---|---|---|")
    for client in HOSTED_CLIENTS:
        for requirement in client.requirements:
            yield _line(client, requirement)
    yield "\nNo public page was found that says:\n"
    yield from (f"- {question}" for question in NOT_FOUND)


def _line(client: HostedClient, requirement: Requirement) -> str:
    check = "–" if requirement.kind in INFORMATIVE else requirement.name
    source = requirement.source.removeprefix("https://")
    cells = (
        client.title,
        f"`{client.id}`",
        requirement.text,
        check,
        f"[{source}]({requirement.source})",
        requirement.read,
    )
    return f"| {' | '.join(cells)} |"
