"""Whether two JSON values are the same, however deeply they are nested."""

from typing import Any


def is_same_json(value: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, true and 1 are not; members may have any order."""
    pending = [(value, other)]
    while pending:
        value, other = pending.pop()
        if value is other:
            continue
        if isinstance(value, dict):
            if not isinstance(other, dict) or value.keys() != other.keys():
                return False
            pending += [(member, other[name]) for name, member in value.items()]
        elif isinstance(value, list):
            if not isinstance(other, list) or len(value) != len(other):
                return False
            pending += zip(value, other, strict=True)
        elif isinstance(value, bool) or isinstance(other, bool) or value != other:
            return False  # the only booleans that are the same are identical
    return True
