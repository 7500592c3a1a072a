"""The variables of URI templates (RFC 6570)."""

import re
from typing import Final

_MAX_TEMPLATE_CHARS: Final = 10_000
"""The most characters of a template in which variables are found."""
_find_expressions: Final = re.compile(r"\{([^{}]{0,1000})\}").findall
_find_names: Final = re.compile(r"[A-Za-z0-9_.%]+").findall


def template_variables(template: str) -> set[str] | None:
    """Returns the names of the variables of a template, or None if it is too long."""
    if len(template) > _MAX_TEMPLATE_CHARS:
        return None
    return {name for expression in _find_expressions(template) for name in _find_names(expression)}
