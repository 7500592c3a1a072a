"""The page of all clients, generated from the catalogue: docs/clients.md.

python -m mcpproxy.clients.page docs/clients.md     rewrites it
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.client import Client
from mcpproxy.clients.hosted_page import hosted_section

_OPENING: Final = """\
# Clients

The MCP clients whose servers [`mcpproxy install`](commands/install.md) can route, with the files that it reads and
writes. This page is generated from `mcpproxy/clients/catalogue.py`. "Seen with" names the version of a client that was
run to verify its row, "file read by" a version that was only seen to read the file; the other rows come from the
documentation or the source code that they name.

`./` is the root of the current repository. Files below it are written only with `--scope project`. mcpproxy cannot
record on Windows yet, so nothing is written there.
"""


def page() -> str:
    """The whole page."""
    lines = [_OPENING, "| client | name | your files | project files | source |", "|---|---|---|---|---|"]
    lines += [
        f"| {client.title} | `{client.id}` | {_files(client, 'user')} | {_files(client, 'project')} | {client.source} |"
        for client in CLIENTS
    ]
    lines += ["", "After `install`, a client has to read its file again:", "", "| client | what to do |", "|---|---|"]
    lines += [f"| {client.title} | {_after(client)} |" for client in CLIENTS]
    return "\n".join([*lines, "", *hosted_section()]) + "\n"


def _after(client: Client) -> str:
    project = f"; for a project's servers: {client.after_project}" if client.after_project else ""
    return (client.after or "nothing: it notices the change") + project


def _files(client: Client, scope: str) -> str:
    return "<br>".join(_places(client, scope)) or "–"


def _places(client: Client, scope: str) -> Iterator[str]:
    for config in client.files:
        if config.scope == scope:
            linux, macos = (config.places.get(system, ()) for system in ("linux", "macos"))
            yield from (f"`{place}`" for place in linux)
            yield from (f"`{place}` (macOS)" for place in macos if place not in linux)
    for variable, front in client.overrides:
        if scope == "user":
            yield f"`{variable}` replaces `{front}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
