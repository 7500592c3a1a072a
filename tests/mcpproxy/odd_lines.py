"""First lines of a session that are not valid messages: what real servers print, and worse."""

import json
import random
from collections.abc import Iterator
from typing import Final

BANNERS: Final = (
    b"[2026-11-22 12:00:00] ready",
    b"[INFO] server started",
    b"[info]",
    b"2026-11-22T12:00:00Z INFO listening",
    b"Loaded 5 tools",
    b"Server running on stdio",
    b"npm warn exec The following package was not found and will be installed: server@1.0.0",
    b"> server@1.0.0 start",
    b"{level: info}",
    b"{'level': 'info'}",
    b'{"level":"info",}',
    b'{"level":"info" "msg":"ready"}',
    b'{"level":"info"}{"level":"info"}',
    b"\x1b[32mINFO\x1b[0m ready",
    b"(node:4711) Warning: something is deprecated",
    b"Traceback (most recent call last):",
    b'  File "server.py", line 1, in <module>',
    b"-----",
    b"=====",
    b"#!/usr/bin/env node",
    b"<!DOCTYPE html>",
    b"Content-Length: 52\r",
    b"Content-Length: 52",
    b"HTTP/1.1 200 OK\r",
    b"data: {}",
    b"null",
    b"true",
    b"false",
    b"tru",
    b"nul",
    b"NaN",
    b"-Infinity",
    b"Infinity",
    b"Infinit",
    b"-",
    b"-0",
    b"+1",
    b"1",
    b"1.",
    b"1e",
    b"1e999",
    b".5",
    b"01",
    b"9" * 5000,
    b'"',
    b'"text"',
    b'"\\',
    b'"\\x"',
    b'"\\u12"',
    b'"\\ud800"',
    b"'",
    b"",
    b" ",
    b"\t",
    b"\r",
    b"\v",
    b"\x00",
    b"\x00\x01\x02",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b"\xc3",
    b"\xed\xa0\x80",
    "Bereit für Anfragen".encode(),
    "\u2028\u2029\x85".encode(),
    "🦆".encode(),
)
JSON: Final = (
    b'{"a":1,}',
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[]",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,]",
    b"[1 2]",
    b'{"a"',
    b'{"a":',
    b'{"a":}',
    b'{"a":1',
    b'{"a":1,',
    b'{"a" 1}',
    b"{a:1}",
    b"{1:1}",
    b'{"a":1}}',
    b'{"a":1}]',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1,"a":2}',
    b'{"a":"\t"}',
    b'{"a":"\\ud800"}',
    b"[" * 100,
    b"[" * 1000,
    b"[" * 30_000,
    b'{"a":' * 1000,
    b"[" * 201 + b"]" * 201,
    b"[" * 600 + b"]" * 600,
    b'{"a":' * 600 + b"1" + b"}" * 600,
    b"[" + b"1," * 10_000 + b"]",
    b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}x',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":-0,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\u0000","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"' + b"x" * 5000 + b'","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":""}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud83d"}',
    b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 5000 + b'"}',
    b'{"jsonrpc":"2.0","id":1,"method":"rpc.x"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e999}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":' + b"1" * 5000 + b"}}",
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}',
    b'{"jsonrpc":"2.0","id":1,"error":null}',
    b'{"jsonrpc":"2.0","id":1,"error":"x"}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"id":1,"method":"ping"}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},]',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"' + b"x" * 40_000 + b'"},}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"' + b"x" * 300_000 + b'"},}',
    b"x" * 70_000,
    b"\xff" * 70_000,
)
_SEEDS: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
    b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"\\u00e9\\n"}],"isError":false}}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[1,2.5e-3,null,true]}}',
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no such method","data":{"method":"x"}}}',
)
_BITS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\x00",
    b"\xff",
    b"1",
    b"e",
    b"-",
    b"NaN",
    b"null",
    b" ",
)


def mutated(chance: random.Random) -> bytes:
    """Returns a message with a few random errors, never with an LF."""
    line = bytearray(chance.choice((*_SEEDS, *BANNERS[:24], *JSON[:24])))
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(line) + 1)
        match chance.randrange(4):
            case 0:
                line[at:at] = chance.choice(_BITS)
            case 1:
                del line[at : at + chance.randrange(1, 6)]
            case 2:
                line[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                line[at:at] = line[at : at + chance.randrange(1, 12)]
    return bytes(line).replace(b"\n", b"")


def odd_lines(count: int, seed: int = 0) -> list[bytes]:
    """Returns `count` different lines without LF: first those that are listed here, then random ones."""
    return list(dict.fromkeys(_lines(count, random.Random(seed))))[:count]


def _lines(count: int, chance: random.Random) -> Iterator[bytes]:
    yield from (*BANNERS, *JSON)
    yield from (json.dumps({"jsonrpc": "2.0", "id": ident, "method": "ping"}).encode() for ident in (0, -1, "", "0"))
    yield from (mutated(chance) for _ in range(2 * count))
