"""Texts without secrets, as servers send them: `share` leaves every byte of them."""

import json
from pathlib import Path

import pytest

from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.redaction import Redactor, Replacement

BETWEEN = "\n%%\n"
"""The line between two texts in the file."""


@pytest.mark.usefixtures("secret_rules")
@pytest.mark.parametrize("personal", [False, True])
def test_texts_without_secrets_stay(*, personal: bool) -> None:
    file = Path(__file__).parent / "innocent_texts.txt"
    texts = file.read_text("utf-8").removesuffix("\n").split(BETWEEN)
    assert len(texts) >= 200
    redactor = Redactor(
        PseudonymGenerator(bytes(32)), catalogue(), ShareChoices(), bodies=True, unparsed=False, personal=personal
    )
    changed: list[tuple[str, list[Replacement]]] = []
    for text in texts:
        made: list[Replacement] = []
        document = json.dumps({"text": text})
        is_same = redactor.redact_text(text, made) == text and redactor.redact_document(document, made) == document
        if made or not is_same:
            changed.append((text, made))
    assert changed == []
