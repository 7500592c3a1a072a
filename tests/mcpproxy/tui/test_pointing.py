"""Terms for a row: what excludes a row is no double negation."""

from mcpproxy.tui.pointing import negated


def test_a_term_is_negated_once() -> None:
    for term, expected in (("has:answer", "not has:answer"), ("not has:answer", "has:answer")):
        assert negated(term) == expected
        assert negated(expected) == term
