"""A stdio server that chooses cursors and task ids anew each time, and misbehaves on request.

    chooser.py [--hang-on TOOL] [--crash-on TOOL] [--flood] [--pester] [--giant] [--answer TEXT] [--account FILE]

It lists its tools in two pages, and accepts only a cursor that it has given. `find` and `job` only read, `save` does
not. `job` gives an id that the next `job` must bring back. `--flood` sends notifications without end after each call,
`--giant` a line of 20 MiB. `--pester` sends requests without end after the handshake, and reads no more. FILE gets a
line for each message that came.
"""

import argparse
import json
import os
import sys
import threading
import uuid
from typing import Any

PAGES = (["find", "job"], ["save"])


class Server:
    """The server, with what it chose in this run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._cursor, self._job = (str(uuid.uuid4()) for _ in range(2))
        self._lock = threading.Lock()

    def serve(self, line: bytes) -> None:
        """Answer a message."""
        options, message = self._options, json.loads(line)
        if options.account:
            with open(options.account, "ab") as file:
                file.write(line)
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message or method is None or (options.hang_on and params.get("name") == options.hang_on):
            return
        try:
            self._say(id=message["id"], result=self._answer(method, params))
        except ValueError as error:
            self._say(id=message["id"], error={"code": -32602, "message": str(error)})
        while method == "initialize" and options.pester:
            self._say(id="again", method="roots/list")
        if method == "tools/call" and options.giant:
            self._log("x" * (20 << 20))
        if method == "tools/call" and options.flood:
            threading.Thread(target=self._flood, daemon=True).start()

    def _say(self, **message: Any) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _log(self, text: str) -> None:
        self._say(method="notifications/message", params={"level": "info", "data": text})

    def _flood(self) -> None:
        while True:
            self._log("x" * 1000)

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            info = {"name": "chooser", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        if method == "tools/list":
            return self._page(params)
        return self._call(params["name"], params.get("arguments", {})) if method == "tools/call" else {}

    def _page(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("cursor") not in (None, self._cursor):
            raise ValueError("unknown cursor")
        tools = [
            {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name != "save"}}
            for name in PAGES["cursor" in params]
        ]
        return {"tools": tools, **({} if "cursor" in params else {"nextCursor": self._cursor})}

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool == self._options.crash_on:
            os._exit(3)
        if tool == "job" and arguments.get("jobId") not in (None, self._job):
            raise ValueError("unknown job")
        text = json.dumps({"jobId": self._job}) if tool == "job" else self._options.answer
        return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser()
    for name in ("--hang-on", "--crash-on", "--account"):
        parser.add_argument(name, default="")
    parser.add_argument("--answer", default="found")
    for name in ("--flood", "--pester", "--giant"):
        parser.add_argument(name, action="store_true")
    server = Server(parser.parse_args())
    for line in sys.stdin.buffer:
        server.serve(line)


if __name__ == "__main__":
    main()
