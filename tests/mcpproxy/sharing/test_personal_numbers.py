"""Telephone numbers, bank accounts and MAC addresses, and numbers that only look like them."""

from mcpproxy.sharing.personal_numbers import is_iban, is_phone_number, personal_numbers
from mcpproxy.sharing.pseudonyms import PseudonymGenerator

PHONES = (
    *("+49 30 901820", "+4930901820", "+49 (0)30 901820", "+49-30-901820", "+49 30/901820", "+44 20 7946 0958"),
    *("+1 (617) 555-0123", "+1-617-555-0123", "+1.617.555.0123", "+33 1 23 45 67 89", "+81 3-1234-5678"),
    *("+49\u00a030\u00a0901820", "+7 495 123-45-67", "+86 138 0013 8000", "+5511912345678", "+358 40 1234567"),
    *("(617) 555-0123", "617-555-0123", "617.555.0123", "1-617-555-0123", "(030) 901820", "(0161) 496 0000"),
    *("01 23 45 67 89", "01.23.45.67.89", "020 7946 0958", "07700 900123"),
)
AFTER_A_WORD = (
    *(
        "tel:+49-30-901820",
        "phone: +35227001",
        "phone: 030 901820",
        "Tel. 030/901820",
        "tel:030901820",
        "Telefon 0171-1234567",
        "fax=617 555 0123",
    ),
    *("mobile: 4915112345678", '"phone": "030 901820"', 'phone_number="0301234567', "Tél. : 0123456789"),
    *("電話：03-1234-5678", "WhatsApp: 00491511234567", "home_phone: 617 555 0123", "телефон: 8 495 123-45-67"),
)
IBANS = ("DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606", "NO9386011117947")
MACS = ("00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "98:76:54:32:10:98")


def found(text: str) -> list[tuple[str, str]]:
    return [(secret.kind, text[secret.start : secret.end]) for secret in personal_numbers(text)]


def test_telephone_numbers_are_found() -> None:
    for phone in PHONES:
        for text in (
            phone,
            f"call {phone}.",
            f"({phone})",
            f'"{phone}"',
            f"{phone}, {phone}\n",
            f"x,{phone},7",
            f"call:{phone}",
        ):
            assert {("phone-number", phone)} == set(found(text)), text
    for text in AFTER_A_WORD:
        ((kind, number),) = set(found(text))
        assert kind == "phone-number"
        assert text.strip('"').endswith(number), text
    assert is_phone_number("4930901820")
    assert not is_phone_number("123456")


def test_bank_accounts_are_found() -> None:
    for account in IBANS:
        assert is_iban(account)
        spaced = " ".join(account[at : at + 4] for at in range(0, len(account), 4))
        for written in (account, spaced, spaced.replace(" ", "\u00a0"), spaced.replace(" ", "-")):
            for text in (written, f"IBAN: {written}, BIC x", f"to {written} BIC"):
                assert found(text) == [("iban", written)], text
        wrong = account[:2] + f"{(int(account[2:4]) + 1) % 100:02}" + account[4:]
        assert not is_iban(wrong)
        assert found(wrong) == []
    assert not is_iban("ZZ" + IBANS[0][2:])


def test_mac_addresses_are_found() -> None:
    for address in MACS:
        for text in (address, f"ether {address} txqueuelen", f"[{address}]", f"{address}."):
            assert found(text) == [("mac-address", address)], text


def test_other_numbers_stay() -> None:
    for text in (
        "+1.23456789 and +12345678.9, 3+4915112345678, x+1, 2026-11-29T19:51:37+00:00, +0100",
        "+12345678 points, +5000000000 rows, +10000000000, +4900000000, +100000000 users, +5 000 000 000 rows",
        "+1234567890 and +123456789012, +7234567890 bytes, +45123456 rows, +1 123 456 7890",
        "+40.7128-074.0060/ and +52.5200+013.4050",
        "phone: 2026-11-29, phone: 12, fax 1234567890123456789, telephone_id=123456a, mobile: 12:30:45",
        "megaphone 12345678, iPhone 15, Windows Phone 8.1.0",
        "123-456-7890 617-155-0123 5617-555-0123 617-555-01234 617-555-0123-4 a617.555.0123",
        "7f 45 4c 46 01 23 45 67 89 ab cd",
        "01 02 03 04 05 06 07 08, 0123 4567, 02 03 04 05",
        "12:34:56:12:34:56 10-11-12-13-14-15 20-11-29-19-51-37",
        "ff:ff:ff:ff:ff:ff 00:00:00:00:00:00 d8:3f:aa:01:bc:44:9e:10 dead.beef.cafe",
        "DE10 is a board, DE12345678901234567890 has wrong digits, XDE89370400440532013000",
    ):
        assert found(text) == [], text


def test_a_pseudonym_keeps_the_form_and_is_not_found_again() -> None:
    make = PseudonymGenerator(bytes(32))
    for texts, pseudonym in ((PHONES, make.phone), (IBANS, make.iban), (MACS, make.mac)):
        for text in texts:
            new = pseudonym(text)
            assert new != text
            assert found(f"phone: {new}") == []
            assert [char.isalnum() for char in new] == [char.isalnum() for char in text]
    assert make.phone("+49 30 901820").replace(" ", "") == make.phone("+4930901820")
    assert make.iban("DE89 3704").replace(" ", "") == make.iban("DE893704")
    assert len({make.mac("00:1a:2b:3c:4d:5e").replace(":", ""), make.mac("001a.2b3c.4d5e").replace(".", "")}) == 1
