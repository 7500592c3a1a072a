"""Of a login in a log, an import keeps what a recording keeps: named facts, and no body."""

from orjson import dumps, loads

from mcpproxy.importers.http import Exchanges, request_of, response_of


def test_a_login_in_a_log_keeps_its_facts_and_no_body() -> None:
    metadata = dumps({"issuer": "https://a.example", "token_endpoint": "https://a.example/t"})
    sent = b'{"jsonrpc":"2.0","id":1,"method":"x","grant_type":"password","password":"correct horse"}'
    got = b'{"jsonrpc":"2.0","id":1,"result":{"access_token":"battery staple"},"token_type":"Bearer"}'
    crossed = (
        (b"GET /.well-known/oauth-authorization-server HTTP/1.1\r\n\r\n", metadata),
        (b"POST /t HTTP/1.1\r\nContent-Type: application/json\r\n\r\n" + sent, got),
    )
    exchanges = Exchanges({b"/mcp"})
    records = []
    for number, (request, body) in enumerate(crossed, 1):
        records += exchanges.add_request(number, *request_of(request), "127.0.0.1:1")
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body
        records += exchanges.add_response(number, *response_of(answer), complete=True)
    assert {record.rec for record in records} == {"exchange"}
    ends = [loads(b"{%b}" % record.middle[1:]) for record in records if b'"stage":"end"' in record.middle]
    assert [end["oauth"] for end in ends] == [
        {"leg": "server-metadata", "iss": "https://a.example"},
        {"leg": "token", "grant_type": "password", "token_type": "Bearer"},
    ]
    assert ends[1]["body_hash"] == {"request": {"size": len(sent)}, "response": {"size": len(got)}}
    assert not any(b"horse" in record.middle or b"staple" in record.middle for record in records)
