"""Captures in tests: fixtures, context managers and assertions, for pytest and unittest.

The package loads no module until one of its names is used, because pytest loads its plugin in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpproxy.testing.calls import Calls, RecordedCall
    from mcpproxy.testing.capture import Capture, Findings
    from mcpproxy.testing.misses import RequestsMissed
    from mcpproxy.testing.mocking import mcp_mock
    from mcpproxy.testing.recording import mcp_record
    from mcpproxy.testing.server import RecordedServer

__all__ = [
    "Calls",
    "Capture",
    "Findings",
    "RecordedCall",
    "RecordedServer",
    "RequestsMissed",
    "mcp_mock",
    "mcp_record",
]

_MODULE_BY_NAME = {
    "Calls": "calls",
    "Capture": "capture",
    "Findings": "capture",
    "RecordedCall": "calls",
    "RecordedServer": "server",
    "RequestsMissed": "misses",
    "mcp_mock": "mocking",
    "mcp_record": "recording",
}


def __getattr__(name: str) -> Any:
    """Return the object called `name`, and load its module on first use."""
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
