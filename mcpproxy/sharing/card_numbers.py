"""Finds the numbers of payment cards in a text, with or without separators, by length, issuer and check digit."""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.sharing.pseudonyms import passes_luhn

_SEPARATOR: Final = "(?P<by>[ .\u00a0\u2007\u2009\u2011\u202f-])"
_CARD_CANDIDATE: Final = re.compile(
    r"(?<![0-9A-Za-z.+-])(?=(?P<number>[2-6](?:[0-9]{13,18}"
    rf"|[0-9]{{3}}{_SEPARATOR}(?:[0-9]{{4}}(?P=by)[0-9]{{4}}(?P=by)[0-9]{{2,7}}|[0-9]{{6}}(?P=by)[0-9]{{4,5}})"
    r"(?P<last>(?P=by)[0-9]{1,4})?))(?![0-9A-Za-z]|[.-][0-9]))[2-6]"
)
"""The group `last` may match the end of the number, or the code on the back of the card."""
_FOUR_BEFORE: Final = re.compile(r"(?<![^\s,;|])[0-9]{4}[^0-9]\Z")
_FOUR_AFTER: Final = re.compile(r"[^0-9][0-9]{4}(?![^\s,;|])").match
_CARD_DIGITS: Final = re.compile(
    r"4(?:[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"  # Mastercard
    r"|3[47][0-9]{13}|3(?:0[0-5]|[689][0-9])[0-9]{11,16}|35[0-9]{14,17}"  # American Express, Diners Club, JCB
    r"|(?:5[06-9]|6[0-9])[0-9]{14,17}"  # Discover, UnionPay, Maestro
).fullmatch
"""Matches the digits of a card by its issuer. It excludes old cards with 13 digits, because a tenth of all article
numbers (EAN) would look like one."""


def card_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each card number in a text. It ignores tables of numbers with four digits each."""
    last_end = 0
    for match in _CARD_CANDIDATE.finditer(text):
        if match.start() < last_end:
            continue
        end = _end_of_card(match)
        if end is not None and not _is_in_table(text, match, end, last_end):
            yield match.start(), end
            last_end = end


def is_card_number(digits: str) -> bool:
    """Whether digits can be the number of a payment card."""
    return _CARD_DIGITS(digits) is not None and passes_luhn(digits)


def _end_of_card(match: re.Match[str]) -> int | None:
    """Returns the end of a card number, which may include the digits after the fourth group; None if it is not one."""
    for end in (match.end("number"), match.start("last")):
        if end > 0 and is_card_number(re.sub("[^0-9]", "", match.string[match.start() : end])):
            return end
    return None


def _is_in_table(text: str, match: re.Match[str], end: int, last_end: int) -> bool:
    """Whether a number in groups has another group of four digits next to it that does not belong to another card."""
    if match["by"] is None:
        return False
    start = match.start()
    has_group_before = _FOUR_BEFORE.search(text, max(0, start - 6), start) is not None and start != last_end + 1
    has_group_after = _FOUR_AFTER(text, end) is not None
    if has_group_after:
        next_match = _CARD_CANDIDATE.match(text, end + 1)
        has_group_after = next_match is None or _end_of_card(next_match) is None
    return has_group_before or has_group_after
