"""Which requests are the same request on both sides."""

from analysis.comparison.requests import RequestKey, request_key
from analysis.conversation.call import Call
from analysis.conversation.message import Request, messages
from analysis.facts import target_name
from captures.envelope import judge
from captures.frame import Frame

EQUAL = (
    ('{"name": "a", "arguments": {"x": 1, "y": [2.0]}}', '{"arguments": {"y": [2], "x": 1e0}, "name": "a"}'),
    ('{"name": "a", "_meta": {"progressToken": 1}}', '{"name": "a", "requestState": "s"}'),
    ('{"name": "a", "x": 100000000000000000000}', '{"x": 1e20, "name": "a"}'),
    ('{"name": "a", "x": "\\ud800"}', '{"x": "\\uD800", "name": "a"}'),
    ('{"x": "%s", "y": 1}' % ("long" * 1_000), '{"y": 1.0, "x": "%s"}' % ("long" * 1_000)),
)
DIFFERENT = (
    ('{"name": "a", "x": 1}', '{"name": "a", "x": true}'),
    ('{"name": "a", "x": 1}', '{"name": "a", "x": "1"}'),
    ('{"name": "a", "x": 1e400}', '{"name": "a", "x": null}'),
    ('{"name": "a"}', '{"name": "b"}'),
    ('{"x": [1, 2]}', '{"x": [2, 1]}'),
)


def test_equal_requests_have_equal_keys_however_they_were_written() -> None:
    for one, other in EQUAL:
        assert key_of(one) == key_of(other), one
        assert key_of(one) == key_of(one), one
    for one, other in DIFFERENT:
        assert key_of(one).digest != key_of(other).digest, one


def test_the_key_of_a_call_without_params_is_that_of_empty_ones() -> None:
    assert key_of("{}") == key_of(None)
    assert key_of("[]").digest != key_of("{}").digest
    assert key_of("{}").digest != key_of("{}", method="ping").digest


def key_of(params: str | None, method: str = "tools/call") -> RequestKey:
    """Returns the key of a request with these params."""
    members = "" if params is None else f', "params": {params}'
    raw = f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}"{members}}}'.encode()
    (request,) = messages(Frame(1, 1, "c2s", raw, judge(raw, "c2s")))
    assert isinstance(request, Request)
    return request_key(Call(request, name=target_name(request.params)))
