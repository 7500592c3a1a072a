"""Finds numbers that identify a person or a device: telephone numbers, bank accounts (IBAN), MAC addresses.

Many harmless numbers look like telephone numbers. So a telephone number must have the `+` of an international number,
an unmistakable grouping, or a word such as `phone` before it. The time is linear in the text.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.pseudonyms import MAC_PSEUDONYM, PHONE_PSEUDONYM
from mcpproxy.sharing.word_lists import IBAN_LENGTHS

_SPACE: Final = "[ \u00a0\u2007\u2009\u202f]"
_BEFORE: Final = "(?<![0-9A-Za-z+._/-])(?<![0-9]:)"
_AFTER: Final = "(?![0-9A-Za-z_]|[.:/-][0-9])"
_INTERNATIONAL: Final = re.compile(
    rf"(?P<number>{_BEFORE}\+[1-9][0-9]{{0,3}}+(?:(?:{_SPACE}|[./-]|{_SPACE}?[()]{_SPACE}?)?[0-9]{{1,12}}+){{1,8}}+{_AFTER}"
    rf"|(?<=[tT]el:)\+[1-9][0-9-]{{6,20}}+{_AFTER})"
)
_NATIONAL: Final = re.compile(
    # North America: (617) 555-0123, 617-555-0123, 617.555.0123, 1-617-555-0123
    rf"(?P<number>{_BEFORE}(?:1[ .-])?+(?:\([2-9][0-9]{{2}}\){_SPACE}?[2-9][0-9]{{2}}[ .-]"
    rf"|[2-9][0-9]{{2}}-[2-9][0-9]{{2}}-|[2-9][0-9]{{2}}\.[2-9][0-9]{{2}}\.)[0-9]{{4}}{_AFTER}"
    # An area code in brackets: (030) 901820, (0161) 496 0000
    rf"|{_BEFORE}\(0[1-9][0-9]{{1,4}}\){_SPACE}?[0-9]{{2,8}}(?:[ -][0-9]{{2,6}}){{0,3}}+{_AFTER}"
    # France: 01 23 45 67 89
    rf"|{_BEFORE}(?<![0-9A-Fa-f]{{2}} )0[1-9](?P<by>[ .\u00a0\u202f])(?:[0-9]{{2}}(?P=by)){{3}}[0-9]{{2}}"
    rf"{_AFTER}(?! [0-9A-Fa-f]{{2}}\b)"
    # Great Britain: 020 7946 0958, 07700 900123
    rf"|{_BEFORE}(?<![0-9] )(?:02[0-9] [0-9]{{4}} [0-9]{{4}}|07[0-9]{{3}} [0-9]{{6}}){_AFTER}(?! [0-9]))"
)
_NUMBER: Final = re.compile("(?<![0-9A-Za-z])(?P<number>[0-9+(][0-9() \u00a0\u202f./-]{5,24}+)(?![0-9A-Za-z_@]|:[0-9])")
_PHONE_WORD: Final = re.compile(
    r"(?:(?<![a-z])(?:(?:[a-z]{1,12}[_-])?(?:phone|mobile|telephone)(?:[ _-]?(?:number|no|nr))?"
    r"|tele(?:fon|fono|fone)[a-z]{0,7}|t[eé]l(?:[eé]phone)?|tlf|fax|cell|handy|mobil|m[oó]vil|celular|cellulare"
    r"|whatsapp|gsm|msisdn|sms)|(?:電話|电话|手机|携帯|전화|телефон|тел)(?:番号|号码|번호)?)"
    rf"[\"']?[.]?{_SPACE}?[:=#：]?{_SPACE}{{0,2}}[\"']?\Z",
    re.IGNORECASE,
)
_MAX_WORD_CHARS: Final = 40
_TRAILING_SEPARATORS: Final = " \u00a0\u202f./-("
_DATE: Final = re.compile(
    r"(?:[0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4})(?![0-9])"
).match
_DIGITS: Final = range(7, 16)
"""The possible numbers of digits in a telephone number (ITU-T E.164)."""
_INTERNATIONAL_DIGITS: Final = range(8, 16)
_INTERNATIONAL_NUMBER: Final = re.compile(
    "1[2-9][0-9]{2}[2-9][0-9]{6}|7[3-9][0-9]{9}|(?:2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]"
    "|(?:2[1-689]|3[578]|42|5[09]|6[7-9]|8[0578]|9[679])[0-9])[0-9]+"
).fullmatch
"""Matches the digits of a number with an assigned country code (ITU-T E.164). In zones 1 and 7, its length is fixed."""
_MIN_DIGITS_IN_A_ROW: Final = 10
"""The digits of a telephone number without separators. A shorter number is more likely an amount."""
_ROUND_ENDING: Final = "000000"
"""The last digits of a number that is a large amount."""
_IBAN_START: Final = re.compile(r"(?<![A-Za-z0-9])(?P<country>[A-Z]{2})[0-9]{2}(?=[ \u00a0\u202f-]?[A-Z0-9])")
_MAC: Final = re.compile(
    r"(?<![0-9A-Za-z_])(?<![0-9A-Fa-f][:-])(?:[0-9A-Fa-f]{2}(?P<by>[:-])(?:[0-9A-Fa-f]{2}(?P=by)){4}[0-9A-Fa-f]{2}"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?!\.[0-9A-Za-z]))(?![0-9A-Za-z_]|[:-][0-9A-Fa-f])"
)
_MAX_TIME_PART: Final = 59
_RESERVED_MAC_DIGITS: Final = frozenset({"f" * 12, "0" * 12})


def personal_numbers(text: str) -> Iterator[Secret]:
    """Yields the telephone numbers, bank accounts and MAC addresses in a text, except pseudonyms."""
    yield from _phones(text)
    for start, end in _ibans(text):
        yield Secret(start, end, "iban")
    for match in _MAC.finditer(text):
        if _is_device(match[0]):
            yield Secret(*match.span(), "mac-address")


def is_phone_number(digits: str) -> bool:
    """Whether digits can be a telephone number if their name, or a word before them, says so."""
    return digits.isdigit() and len(digits) in _DIGITS and not _is_pseudonym(digits)


def is_iban(text: str) -> bool:
    """Whether a text without spaces is the number of a bank account with valid check digits (ISO 13616)."""
    if len(text) != IBAN_LENGTHS.get(text[:2]):
        return False
    digits = "".join(str(int(char, 36)) for char in text[4:] + text[:4])
    return 2 <= int(text[2:4]) <= 98 and int(digits) % 97 == 1


def _phones(text: str) -> Iterator[Secret]:
    # The ends of numbers. A part of a number is not judged by itself: `(992) 803-0966` after `+9 ` is a pseudonym.
    seen_ends: set[int] = set()
    for pattern, is_phone in (
        (_INTERNATIONAL, _is_international),
        (_NATIONAL, _is_national),
        (_NUMBER, _is_after_phone_word),
    ):
        for match in pattern.finditer(text):
            start, end = (
                match.start("number"),
                match.start("number") + len(match["number"].rstrip(_TRAILING_SEPARATORS)),
            )
            if end not in seen_ends and is_phone(text, start, end):
                yield Secret(start, end, "phone-number")
                seen_ends.add(end)
            elif pattern is _INTERNATIONAL:
                seen_ends.add(end)


def _is_after_phone_word(text: str, start: int, end: int) -> bool:
    number = text[start:end]
    is_number = is_phone_number(_digits_of(number)) and not _DATE(number)
    return is_number and _follows_phone_word(text, start)


def _is_national(text: str, start: int, end: int) -> bool:
    return not _is_pseudonym(text[start:end])


def _is_international(text: str, start: int, end: int) -> bool:
    """Whether the text after a `+` is a telephone number, and not a decimal number, coordinates or a sum."""
    number = text[start:end]
    digits = _digits_of(number)
    separators = set(re.findall("[./-]", number))
    is_decimal = (
        "." in separators and number.count(".") < 3 and number.count(".") + 1 == len(re.split("[ ./()-]+", number))
    )
    return (
        len(digits) in _INTERNATIONAL_DIGITS
        and (_has_country(number, digits) or _follows_phone_word(text, start))
        and len(separators) < 2
        and not is_decimal
        and number.count("(") == number.count(")") < 2
        and not _is_pseudonym(number)
    )


def _has_country(number: str, digits: str) -> bool:
    """Whether a number after a `+` has a country code, and is not an amount as in `+5000000000 rows`."""
    is_short = len(digits) < _MIN_DIGITS_IN_A_ROW and number == f"+{digits}"
    return not is_short and _INTERNATIONAL_NUMBER(digits) is not None and not digits.endswith(_ROUND_ENDING)


def _follows_phone_word(text: str, start: int) -> bool:
    return _PHONE_WORD.search(text, max(0, start - _MAX_WORD_CHARS), start) is not None


def _digits_of(number: str) -> str:
    return re.sub("[^0-9]", "", number)


def _is_pseudonym(number: str) -> bool:
    return _digits_of(number).startswith(PHONE_PSEUDONYM)


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for start_match in _IBAN_START.finditer(text):
        length = IBAN_LENGTHS.get(start_match["country"])
        match = _iban_pattern(length).match(text, start_match.start()) if length is not None else None
        if match is not None and is_iban(re.sub("[^A-Z0-9]", "", match[0])):
            yield match.span()


@cache
def _iban_pattern(length: int) -> re.Pattern[str]:
    """Returns a pattern for bank accounts with this many characters, with or without spaces."""
    return re.compile(rf"[A-Z]{{2}}[0-9]{{2}}(?:[ \u00a0\u202f-]?[A-Z0-9]){{{length - 4}}}(?![A-Za-z0-9])")


def _is_device(address: str) -> bool:
    """Whether a text in the form of a MAC address is one, and not a date, a time, a word or a pseudonym."""
    digits = re.sub("[^0-9a-f]", "", address.lower())
    if digits in _RESERVED_MAC_DIGITS or digits.startswith(MAC_PSEUDONYM):
        return False
    if digits.isdigit():
        return address[2] == ":" and any(int(pair) > _MAX_TIME_PART for pair in address.split(":"))
    return not digits.isalpha() or address[2] == ":"
