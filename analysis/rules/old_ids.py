"""Renamed rules. The id of a rule is never reused, and an old id still refers to the same rule."""

from typing import Final

RENAMED: Final = {"timeout/abandoned": "timeout/never-cancelled"}
"""Old id → current id."""


def current_id(rule_id: str) -> str:
    """The current id of a rule."""
    return RENAMED.get(rule_id, rule_id)
