"""Kinds of changes of definitions: tools, prompts and resources that come, go, are renamed, reworded or annotated."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

TOOL_REMOVED: Final = Kind(
    "tool/removed",
    Severity.BREAKING,
    "a tool was removed",
    "Calls of the tool fail from now on, and a model that was told of it in a prompt still tries.",
    "tools/list: search, fetch → fetch",
)

KINDS: Final = (TOOL_REMOVED,)
