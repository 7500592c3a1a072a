"""What errors of clients say about lines and messages that they refused."""

from mcpproxy.importers.rejected_lines import rejected_line, unexpected_message


def test_what_is_quoted_of_a_line() -> None:
    for text, line in (
        ("""Unexpected token 'L', "Loading no"... is not valid JSON""", b"Loading no..."),
        ("""SyntaxError: Unexpected token 'h', "hello" is not valid JSON""", b"hello"),
        ("""Unexpected token 's', "she said "yes"... is not valid JSON""", b'she said "yes...'),
        ("""Expected ',' or '}' after property value in JSON, ..."a":1 "b":2"... is not valid JSON""", b""),
        ("Unexpected end of JSON input", b""),
        ("Expected ',' or ']' after array element in JSON at position 5 (line 1 column 6)", b""),
        ("Unexpected non-whitespace character after JSON at position 4", b""),
        ("the JSON of the tool was refused", None),
        ("", None),
    ):
        assert rejected_line(text) == line, text


def test_a_message_that_was_not_expected() -> None:
    progress = '{"method":"notifications/progress","params":{"progress":1}}'
    text = f"Connection error: Received a progress notification for an unknown token: {progress}"
    assert unexpected_message(text) == b'{"jsonrpc":"2.0",' + progress[1:].encode()
    response = 'Received a response for an unknown message ID: {"jsonrpc":"2.0","id":9,"result":{}}'
    assert unexpected_message(response) == b'{"jsonrpc":"2.0","id":9,"result":{}}'
    assert unexpected_message("Received a response for an unknown message ID: {") is None
    assert unexpected_message('Elicitation request received: {"method":"elicitation/create"}') is None
