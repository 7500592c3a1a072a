"""Commands of mcpproxy that tests start, and the servers that they are given."""

import shlex
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from mcp import StdioServerParameters

__tracebackhide__: Final = True  # pytest shows the line of the test instead

Server: TypeAlias = "str | list[str] | tuple[str, ...] | StdioServerParameters"
"""A server: its command as words, or as one text that is split as a shell would; the parameters of the official SDK;
or the URL of a server over HTTP."""
PROGRAM: Final = (sys.executable, "-P", "-m", "mcpproxy")
"""The words that start this mcpproxy, regardless of what the working directory contains."""


class Target(NamedTuple):
    """A server as it is started or reached."""

    command: tuple[str, ...] = ()
    """Its command; empty if it has a URL."""
    url: str = ""
    """Its URL; empty if it has a command."""
    parameters: "StdioServerParameters | None" = None
    """The parameters that were given, with environment and working directory."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words by which a command line of mcpproxy names the server: the URL, or the command after `--`."""
        return (self.url,) if self.url else ("--", *self.command)


def target_of(server: Server) -> Target:
    """Returns a server as it is started or reached.

    Raises:
        TypeError: it is none of what `Server` lists.
        ValueError: the command is empty.
    """
    if isinstance(server, str) and server.partition("://")[0].lower() in ("http", "https"):
        return Target(url=server)
    if isinstance(server, str):
        command = tuple(shlex.split(server))
    elif isinstance(server, list | tuple):
        command = tuple(map(str, server))
    elif isinstance(getattr(server, "command", None), str) and hasattr(server, "model_copy"):
        return Target((server.command, *server.args), parameters=server)
    else:
        raise TypeError(
            f"{type(server).__name__} is not a server: give a command, such as ['python', 'server.py'], "
            "StdioServerParameters, or a URL"
        )
    if not command:
        raise ValueError("the command of the server is empty")
    return Target(command)
