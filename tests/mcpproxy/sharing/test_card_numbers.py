"""Numbers of payment cards, as people and programs write them."""

from mcpproxy.sharing.card_numbers import card_numbers, is_card_number
from mcpproxy.sharing.pseudonyms import PseudonymGenerator

VISA = "4539148803436467"
AMEX = "378282246310005"


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in card_numbers(text)]


def grouped(digits: str, separator: str, sizes: tuple[int, ...]) -> str:
    groups, at = [], 0
    for size in sizes:
        groups.append(digits[at : at + size])
        at += size
    return separator.join(groups)


def test_cards_are_found_with_each_separator() -> None:
    for separator in (" ", "-", ".", "\u00a0", "\u202f", "\u2009", "\u2011"):
        for digits, sizes in ((VISA, (4, 4, 4, 4)), (AMEX, (4, 6, 5))):
            card = grouped(digits, separator, sizes)
            for text in (card, f"card {card}, 12/27", f"No. {card}.", f"{card}{separator}124", f"42 {card}"):
                assert found(text) == [card], text


def test_cards_in_a_row_are_found() -> None:
    card = grouped(VISA, " ", (4, 4, 4, 4))
    assert found(f"{card} {card}\n{card}") == [card] * 3


def test_a_card_next_to_a_port_or_a_year_is_found() -> None:
    card = "4539 1488 0343 6467"
    for text in (f"[::1]:8443\n{card}", f"at {card} 2027-01-01", f"a:1234 {card}, 12:3456"):
        assert found(text) == [card], text


def test_the_cards_of_each_issuer_are_valid() -> None:
    for digits in (VISA, AMEX, "5555555555554444", "2223003122003222", "6011111111111117", "30569309025904"):
        assert is_card_number(digits), digits
        assert found(f"x {digits} y") == [digits]
    for digits in (VISA[:-1] + "8", "1234567812345670", "4" * 12, "0000000000000000", "4915112345678"):
        assert not is_card_number(digits), digits


def test_other_numbers_stay() -> None:
    table = "4539 1488 0343 6467 4539 1488"
    hexdump = "40 10 00 00 00 00 00 00"
    for text in (
        table,
        hexdump,
        f"0.{VISA}",
        f"{VISA}0x",
        "4539 1488-0343 6467",
        "4539.1488 0343.6467",
        "45 39 14 88 03 43 64 67",
        "3.14159265358979",
        "1700000000000000000",
    ):
        assert found(text) == [], text


def test_a_pseudonym_is_not_a_card() -> None:
    make = PseudonymGenerator(bytes(32))
    for number in range(200):
        assert found(make.number(grouped(str(4000_0000_0000_0000 + number), " ", (4, 4, 4, 4)))) == []
