"""Captures for tests and measurements of the report: a busy server of any size, and one that attacks the page."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from captures.envelope import judge
from captures.record import frame_members
from tests.analysis.store.capture_writer import OPENED, CaptureWriter
from tests.mcpproxy.login_captures import LoginCapture

TOOLS: Final = ("read_file", "search", "list_directory", "write_file", "run_query", "fetch")
WORDS: Final = ("quick", "brown", "fox", "jumps", "over", "lazy", "dog", "seven", "bright", "wizards", "plan", "quartz")


def busy(path: Path, frames: int, name: str = "library", opened_ns: int = OPENED, seed: int = 1) -> Path:
    """Write a stdio conversation of `frames` frames.

    It calls several tools; some calls are slow, fail, are abandoned or stay unanswered.
    """
    chance = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    talk = CaptureWriter(path, name, seed, opened_ns, argv=["uvx", f"{name}-server"])
    talk.record(1, "process", event="spawned", pid=4711)
    talk.record(80, "stderr", raw=f"{name}: listening on stdio", size=26)
    talk.handshake(120, name=name)
    talk.ask(150, 1, "tools/list")
    talk.answer(158, 1, tools=[_tool(tool) for tool in TOOLS])
    at_ms, number, count = 200.0, 2, 5
    while count < frames:
        tool = TOOLS[chance.randrange(len(TOOLS))]
        took_ms = chance.lognormvariate(2.2 + 0.5 * TOOLS.index(tool), 0.7)
        talk.call(at_ms, number, tool, path=f"/home/you/notes/{number}.txt", query=_prose(chance, 6))
        count += 1
        fate = chance.random()
        if fate < 0.002:
            at_ms += 30_000
            talk.say(
                at_ms,
                "c2s",
                method="notifications/cancelled",
                params={"requestId": number, "reason": "request timed out"},
            )
            count += 1
        elif fate < 0.02:
            talk.fail(at_ms + took_ms, number, f"cannot open {number}.txt: no such file")
            count += 1
        elif fate < 0.025:
            talk.refuse(at_ms + took_ms, number, -32602, "query is too long")
            count += 1
        elif fate < 0.05:
            talk.say(
                at_ms + 1, "s2c", method="notifications/message", params={"level": "info", "data": _prose(chance, 9)}
            )
            talk.record(at_ms + 1, "stderr", raw=f"slow query: {_prose(chance, 5)}", size=40)
            talk.answer(at_ms + took_ms + 1, number, content=[{"type": "text", "text": _prose(chance, 60)}])
            count += 2
        elif fate < 0.9998:
            talk.answer(
                at_ms + took_ms, number, content=[{"type": "text", "text": _prose(chance, chance.randrange(8, 120))}]
            )
            count += 1
        at_ms += took_ms + chance.expovariate(1 / 40) + 2
        number += 1
    return talk.close()


def _tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "query": {"type": "string"}}}
    return {
        "name": name,
        "description": f"Use {name} to work with notes. " * (2 + len(name) % 3),
        "inputSchema": schema,
    }


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


# ---- attacks

LANDMARK: Final = "https://attack.example/"
"""The URL from which attacks would load something."""
ATTACKS: Final = (
    "<script>window.owned=1</script>",
    "</script><script>window.owned=2</script>",
    "<!--<script>",
    "-->]]><svg onload=window.owned=3>",
    f'"><img src={LANDMARK}x.png onerror=window.owned=4>',
    "' onmouseover='window.owned=5' autofocus onfocus='window.owned=6",
    "javascript:window.owned=7",
    f"<style>@import '{LANDMARK}x.css';</style>",
    f"<link rel=stylesheet href={LANDMARK}y.css><iframe src={LANDMARK}></iframe>",
    f"<meta http-equiv=refresh content='0;url={LANDMARK}'>",
    "<base href=https://attack.example/><form action=/x><input name=a>",
    "${window.owned=8}{{window.owned=9}}",
    "\\u003cscript\\u003ewindow.owned=10\\u003c/script\\u003e",
    "line\u2028separator\u2029paragraph",
    "\u202egnp.exe\u2066isolate\u2069 zero\u200bwidth \U000e0041tag",
    "\x1b[31mred\x07\x00nul\x7f\x9b",
    "__proto__",
    "constructor",
    "mixed \ud83d\ude00 emoji and a\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301 marks",
)


def attack(number: int) -> str:
    """Returns one of the attacks."""
    return ATTACKS[number % len(ATTACKS)]


def hostile(folder: Path) -> list[Path]:
    """Write captures, on stdio, over HTTP and of logins, with an attack in every text that comes from outside."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_hostile_stdio(folder), _hostile_http(folder), _hostile_logins(folder)]


def _hostile_stdio(folder: Path) -> Path:
    name = folder / "<img src=x onerror=window.owned=11>\u202e.mcpcap"
    talk = CaptureWriter(name, attack(1), 11, argv=[attack(4), attack(8)], parents=[{"pid": 1, "exe": attack(3)}])
    talk.record(1, "process", event="spawned", pid=1)
    for number in range(len(ATTACKS)):
        talk.record(2, "stderr", raw=attack(number), size=10)
    talk.ask(
        3,
        attack(1),
        "initialize",
        protocolVersion=attack(2),
        capabilities={attack(0): {}},
        clientInfo={"name": attack(1), "version": attack(4)},
    )
    server = {"name": attack(0), "version": attack(4), "title": attack(3), "instructions": attack(1)}
    talk.answer(5, attack(1), protocolVersion=attack(2), capabilities={"tools": {}}, serverInfo=server)
    for version in range(2):
        talk.ask(6 + 2 * version, version, "tools/list", cursor=attack(3))
        talk.answer(7 + 2 * version, version, tools=[_hostile_tool(number, version) for number in range(len(ATTACKS))])
    for number, text in enumerate(ATTACKS):
        talk.call(20 + number, f"{text}{number}", text, **{text: text})
        talk.fail(20 + number, f"{text}{number}", text)
        talk.ask(20 + number, f"e{number}", text, **{text: [text]})
        talk.refuse(20 + number, f"e{number}", -32000, text)
        talk.say(20 + number, "s2c", method=text, params={text: text})
        talk.say(
            20 + number, "s2c", method="notifications/message", params={"level": text, "logger": text, "data": text}
        )
        talk.raw(20 + number, "s2c", text.encode("utf-8", "surrogatepass") + b"\xff")
        talk.say(20 + number, "s2c", id=f"unknown{text}", result={text: text})
        talk.call(20 + number, f"a{number}", text)
        talk.say(
            20 + number,
            "c2s",
            method="notifications/cancelled",
            params={"requestId": f"a{number}", "reason": f"timeout {text}"},
        )
    talk.call(100, "last", attack(1))
    talk.record(101, "signal", name=attack(1), event="received", origin=attack(4))
    talk.record(102, "gap", first=1, last=2, reason=attack(1))
    return talk.close()


def _hostile_tool(number: int, version: int) -> dict[str, Any]:
    text = attack(number)
    return {
        "name": text,
        "title": text,
        "description": f"{text}{version}",
        "inputSchema": {"type": "object", "$ref": text},
    }


def _hostile_http(folder: Path) -> Path:
    talk = CaptureWriter(
        folder / "http.mcpcap", attack(4), 12, OPENED + 5_000_000_000, transport="http", upstream=attack(1)
    )
    for number, text in enumerate(ATTACKS):
        at_ms = number * 10.0
        head = {"method": "POST", "target": f"/{text}", "headers": [[f"x-{text}", text], ["user-agent", text]]}
        answer = {"status": 200, "headers": [["content-type", text], ["server", text]]}
        _exchange(talk, at_ms, number, "request", head, None)
        _frame(talk, at_ms, "c2s", number, {"id": number, "method": "tools/call", "params": {"name": text}})
        _exchange(talk, at_ms + 1, number, "response", head, answer)
        _frame(talk, at_ms + 2, "s2c", number, {"id": number, "result": {"content": [{"type": "text", "text": text}]}})
        talk.record(
            at_ms + 3,
            "exchange",
            conn=1,
            exchange=number,
            stage="end",
            request=head,
            response=answer,
            ended_by=text,
            error=text,
        )
    return talk.close()


def _hostile_logins(folder: Path) -> Path:
    talk = LoginCapture(folder / "logins.mcpcap", 13, OPENED + 9_000_000_000)
    names = ("scope", "resource", "iss", "as_server", "redirect_uri", "grant_type", "error_uri", "token_type")
    for number, text in enumerate((*ATTACKS, "x" * 2048)):
        # A capture holds JSON, in which these cannot be.
        text = text.encode("utf-8", "replace").decode()
        talk.client, talk.program = f"{text}{number}", text
        facts = dict.fromkeys(names, text)
        talk.message(401, error=text, error_description=text, scope=text)
        talk.leg("resource-metadata", "GET", f"/{text}", 200, **facts)
        talk.leg("token", "POST", f"/{text}", 400, **facts, client_id=text, error=text, error_description=text)
    return talk.close()


def _exchange(talk: CaptureWriter, at_ms: float, number: int, stage: str, request: object, response: object) -> None:
    more = {} if response is None else {"response": response}
    talk.record(at_ms, "exchange", conn=1, exchange=number, stage=stage, peer=attack(number), request=request, **more)


def _frame(talk: CaptureWriter, at_ms: float, way: Any, number: int, message: dict[str, Any]) -> None:
    raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
    middle = frame_members(way, raw, judge(raw, way), conn=1, exchange=number, unit="http_body")
    add: Callable[[float, str, bytes], int] = talk._add
    add(at_ms, "frame", middle)
