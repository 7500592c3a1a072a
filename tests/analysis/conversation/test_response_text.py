"""The one line of a refusal that describes what happened."""

import time

import pytest

from analysis.conversation.response_text import MAX_GIST_CHARS, gist


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Invalid session\r\n", "Invalid session"),
        ("\n\n  two\t words \n more", "two words"),
        ('{"error":"invalid_token","error_description":"it has expired"}', "it has expired"),
        ('{"error":{"code":"rate_limited","message":"slow down"}}', "slow down"),
        ('{"errors":[{"detail":"too large"}]}', "too large"),
        ('{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required"),
        ('{"code":7}', '{"code":7}'),
        ('{"error":', '{"error":'),
        ("<html><head><title>502 Bad &amp; Gateway</title></head><body>x</body></html>", "502 Bad & Gateway"),
        ("<html><title> </title><h1>Sorry</h1></html>", "Sorry"),
        ("<!DOCTYPE html><html><style>p{}</style><div>Log in\nfirst</div></html>", "Log in"),
        ("<html><!-- c - d --><body>Denied because</body></html>", "Denied because"),
        (f"<b>&#{'9' * 5000};</b> no", "9" * 159 + "…"),
        ("", ""),
        ("<>", ""),
    ],
)
def test_gist(text: str, said: str) -> None:
    assert gist(text) == said


def test_it_is_short() -> None:
    assert len(gist("x" * 100_000)) == MAX_GIST_CHARS


def test_time_is_linear_in_a_hostile_text() -> None:
    for piece in ("<title", "<style", "<!--", "<", "&", "[", '{"error":', "\n"):
        began = time.process_time()
        gist("<" + piece * 20_000)
        assert time.process_time() - began < 10, piece
