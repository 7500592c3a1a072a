"""Colour rules: `colours.toml` in the configuration directory gives rows of the traffic a colour.

    [colours]
    "name:delete_*" = "red bold"
    "latency>1s" = "yellow"

Each line is a filter, in the language of `/`, and what its rows look like: a colour, forms, or both. The first rule
that selects a row wins. An invalid line is reported, and the others apply.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from analysis.filter import Filter, FilterError, parse
from mcpproxy.tui.configuration import read_table
from mcpproxy.tui.safe_text import STYLES

COLOURS_FILE: Final = "colours.toml"
MAX_RULES: Final = 100
"""The maximum number of rules: each row that is drawn is tested with all of them."""
BASIC_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
PALETTE_COLOURS: Final = (*BASIC_COLOURS, *(f"bright_{name}" for name in BASIC_COLOURS))
"""The 16 colours of which a terminal has its own palette."""
ROLE_COLOURS: Final = tuple(role for role in STYLES if role != "plain")
"""The colours of the theme, by the roles that have them."""
FORMS: Final = ("bold", "underline", "reverse")
_RGB: Final = re.compile(r"#[0-9a-fA-F]{6}")


class RowLook(NamedTuple):
    """What a row looks like."""

    colour: str = ""
    """A name of `PALETTE_COLOURS` or `ROLE_COLOURS`, or `#rrggbb`; empty for the colours that it has without a rule."""
    forms: frozenset[str] = frozenset()
    """Some of `FORMS`."""


class ColourRule(NamedTuple):
    """A rule."""

    row_filter: Filter
    look: RowLook


class ColourRules(NamedTuple):
    """The user's rules."""

    rules: Sequence[ColourRule] = ()
    """The rules, in the order of the file."""
    errors: Sequence[str] = ()
    """What is invalid in the file; each is a line."""


def read_colour_rules() -> ColourRules:
    """Read the user's rules; returns none if there is no such file."""
    table = read_table(COLOURS_FILE, "colours", '"latency>1s" = "yellow"')
    rules, errors = list[ColourRule](), list(table.errors)
    for expression, value in table.entries.items():
        number = table.lines.get(expression)
        place = COLOURS_FILE if number is None else f"{COLOURS_FILE}, line {number}"
        try:
            rules.append(ColourRule(parse(expression), _look_of(value)))
        except FilterError as error:
            errors.append(f"{place}: {error.problem} at {_excerpt(error)}")
        except ValueError as error:
            errors.append(f"{place}: {error}")
    if len(rules) > MAX_RULES:
        errors.append(f"{COLOURS_FILE}: only the first {MAX_RULES} of {len(rules):,} rules apply")
    return ColourRules(rules[:MAX_RULES], errors)


def _excerpt(error: FilterError) -> str:
    """Returns where an expression is wrong."""
    return f'"{error.text[error.at : error.at + 24]}"' if error.at < len(error.text) else f'the end of "{error.text}"'


def _look_of(value: Any) -> RowLook:
    """Returns the look that a value describes.

    Raises:
        ValueError: it describes none.
    """
    words = value.lower().split() if isinstance(value, str) else []
    colours = [word for word in words if word not in FORMS]
    unknown = [word for word in colours if word not in (*PALETTE_COLOURS, *ROLE_COLOURS) and not _RGB.fullmatch(word)]
    if not words:
        raise ValueError('expected a colour such as "red", "#ff8800" or "yellow bold"')
    if unknown:
        raise ValueError(
            f'there is no colour {unknown[0]}; expected one such as "red", "bright_red", "warm" or "#ff8800"'
        )
    if len(colours) > 1:
        raise ValueError(f"expected one colour, not {' and '.join(colours)}")
    return RowLook(colours[0] if colours else "", frozenset(words) - frozenset(colours))
