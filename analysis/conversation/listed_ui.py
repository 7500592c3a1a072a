"""What the tools of a list say about MCP Apps (SEP-1865): the UI that shows their results, and who may call them.

All functions accept any JSON.
"""

from dataclasses import dataclass, field
from typing import Any, Final

FLAT_MEMBER: Final = "ui/resourceUri"
"""The deprecated member of `_meta` that has the URI of the UI."""
MAX_LISTED_NAMES: Final = 10_000
"""The most URIs, and the most names of tools, that are remembered for one session."""


@dataclass(slots=True)
class ListedUi:
    """What the tools that a server listed last say about Apps."""

    ui_tools: dict[str, str] = field(default_factory=dict)
    """The names of tools whose results a UI shows, each with the URI of the UI. Untrusted texts."""
    uris: dict[str, int] = field(default_factory=dict)
    """The URIs of the UIs of tools, each with the number of the message that listed it. Untrusted texts."""
    app_tools: set[str] = field(default_factory=set)
    """The names of tools that are only for apps. Untrusted texts."""

    @property
    def is_empty(self) -> bool:
        """Whether the tools say nothing about Apps."""
        return not self.uris and not self.app_tools

    def add_tools(self, tools: list[Any], seq: int) -> None:
        """Add the tools of a page of the list, which is message `seq`."""
        for tool in tools:
            meta = tool.get("_meta") if isinstance(tool, dict) else None
            if not isinstance(meta, dict) or ("ui" not in meta and FLAT_MEMBER not in meta):
                continue
            uri, name = resource_uri_of(tool), tool.get("name")
            if uri is not None and len(self.uris) < MAX_LISTED_NAMES:
                self.uris.setdefault(uri, seq)
                if isinstance(name, str):
                    self.ui_tools[name] = uri
            if isinstance(name, str) and is_for_apps_only(tool) and len(self.app_tools) < MAX_LISTED_NAMES:
                self.app_tools.add(name)


def resource_uri_of(tool: object) -> str | None:
    """Returns the URI of the UI that shows a tool's results, or None if the tool names none."""
    meta = tool.get("_meta") if isinstance(tool, dict) else None
    if not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    uri = ui.get("resourceUri") if isinstance(ui, dict) else None
    if not isinstance(uri, str):
        uri = meta.get(FLAT_MEMBER)
    return uri if isinstance(uri, str) else None


def is_for_apps_only(tool: object) -> bool:
    """Whether only apps may call a tool."""
    meta = tool.get("_meta") if isinstance(tool, dict) else None
    ui = meta.get("ui") if isinstance(meta, dict) else None
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return isinstance(visibility, list) and "app" in visibility and "model" not in visibility
