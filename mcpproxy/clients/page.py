"""Generates docs/clients.md, the page of all clients, from the catalogue.

python -m mcpproxy.clients.page docs/clients.md     rewrites the page
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

This page lists the MCP clients whose servers [`mcpproxy install`](commands/install.md) can route, with the files that
it reads and writes. It is generated from `mcpproxy/clients/catalogue.py`. "Seen with" names the version of a client
that was run to verify its row, "file read by" a version that was only seen to read the file; the other rows come from
the documentation or the source code that they name.

`./` is the root of the current repository. Files below it are written only with `--scope project`. mcpproxy cannot
record on Windows yet, so nothing is written there.
"""


def page_text() -> str:
    """Returns the text of the page."""
    lines = [_OPENING, "| client | name | your files | project files | source |", "|---|---|---|---|---|"]
    lines += [
        f"| {client.title} | `{client.id}` | {_files_cell(client, 'user')} | "
        f"{_files_cell(client, 'project')} | {client.source} |"
        for client in CLIENTS
    ]
    lines += ["", "After `install`, a client has to read its file again:", "", "| client | what to do |", "|---|---|"]
    lines += [f"| {client.title} | {_steps_after_edit(client)} |" for client in CLIENTS]
    return "\n".join([*lines, "", *hosted_section()]) + "\n"


def _steps_after_edit(client: Client) -> str:
    project_step = (
        f"; for a project's servers, {client.step_after_project_edit.replace('and ', 'also ', 1)}"
        if client.step_after_project_edit
        else ""
    )
    return (client.step_after_edit or "nothing: it notices the change") + project_step


def _files_cell(client: Client, scope: str) -> str:
    return "<br>".join(_places(client, scope)) or "–"


def _places(client: Client, scope: str) -> Iterator[str]:
    for config in client.files:
        if config.scope == scope:
            linux, macos = (config.places.get(system, ()) for system in ("linux", "macos"))
            yield from (f"`{place}`" for place in linux)
            yield from (f"`{place}` (macOS)" for place in macos if place not in linux)
    for variable, prefix in client.overrides:
        if scope == "user":
            yield f"`{variable}` replaces `{prefix}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page_text(), "utf-8")
