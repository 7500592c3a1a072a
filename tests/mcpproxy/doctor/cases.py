"""What the tests of `doctor` share: servers in a few lines, clients' files, and the command as typed."""

import json
import sys
from pathlib import Path
from typing import Any

from mcpproxy.clients.addresses import PROXY_VARIABLES
from tests.mcpproxy.cli.typed import mcpproxy

GOOD = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                              "serverInfo": {"name": "good", "version": "1"}},
               "tools/list": {"tools": [{"name": sorted(os.environ)[0], "inputSchema": {"type": "object"}}]}}
    if message.get("method") in results:
        BEFORE
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
"""


def good(before: str = "pass") -> list[str]:
    return [sys.executable, "-c", GOOD.replace("BEFORE", before)]


def entry(words: list[str], **more: Any) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:], **more}


def configure(home: Path, servers: dict[str, Any], file: str = ".claude.json", key: str = "mcpServers") -> None:
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(json.dumps({key: servers}))


UNSET = dict.fromkeys(
    ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", *PROXY_VARIABLES), ""
)
"""Variables that may be set on the machine of the tests, but that the tests are not about."""


def doctor(home: Path, *arguments: str, code: int = 1, **variables: str) -> list[dict[str, Any]]:
    environment: Any = {"HOME": str(home), **UNSET, **variables}
    done = mcpproxy("doctor", *arguments, "--json", cwd=home / "project", **environment)
    assert done.returncode == code, (done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def examine(home: Path, text: str, code: int = 1) -> list[dict[str, Any]]:
    """Run `doctor` on a server written in Python; returns its verdicts."""
    configure(home, {"server": entry([sys.executable, "-c", text])})
    return doctor(home, "claude-code", "server", code=code)


def verdicts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Returns the evidence and advice by verdict, except for a slow start, which depends on how busy the machine is."""
    return {
        one["verdict"]: f"{one['evidence']} → {one['advice']}"
        for row in rows
        for one in row["verdicts"]
        if one["verdict"] != "start/slow"
    }
