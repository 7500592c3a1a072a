"""A stdio server that chooses cursors and task ids anew each time, and misbehaves on request.

    chooser.py [--hang-on TOOL] [--crash-on TOOL] [--flood] [--giant] [--answer TEXT] [--account FILE]

It lists its tools in two pages, and accepts only a cursor that it has given. `find` and `job` only read, `save` does
not. `job` gives an id that the next `job` must bring back. `--flood` sends notifications without end after each call,
`--giant` a line of 20 MiB. FILE gets a line for each message that came.
"""

import argparse
import json
import os
import sys
import threading
import uuid
from typing import Any

PAGES = (["find", "job"], ["save"])


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser()
    for name in ("--hang-on", "--crash-on", "--answer", "--account"):
        parser.add_argument(name, default="")
    for name in ("--flood", "--giant"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    cursor, job = (str(uuid.uuid4()) for _ in range(2))
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def flood() -> None:
        while True:
            say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            info = {"name": "chooser", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        if method == "tools/list":
            if params.get("cursor") not in (None, cursor):
                raise ValueError("unknown cursor")
            page = PAGES["cursor" in params]
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name != "save"}}
                for name in page
            ]
            return {"tools": tools, **({} if "cursor" in params else {"nextCursor": cursor})}
        if method == "tools/call":
            tool, given = params["name"], params.get("arguments", {}).get("jobId")
            if tool == options.crash_on:
                os._exit(3)
            if tool == "job" and given not in (None, job):
                raise ValueError("unknown job")
            text = json.dumps({"jobId": job}) if tool == "job" else options.answer or "found"
            return {"content": [{"type": "text", "text": text}]}
        return {}

    for line in sys.stdin.buffer:
        if options.account:
            with open(options.account, "ab") as file:
                file.write(line)
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params = message.get("params", {})
        if params.get("name") and params["name"] == options.hang_on:
            continue
        try:
            outcome: dict[str, Any] = {"result": answer(message["method"], params)}
        except ValueError as error:
            outcome = {"error": {"code": -32602, "message": str(error)}}
        say({"id": message["id"], **outcome})
        if options.giant and message["method"] == "tools/call":
            say({"method": "notifications/message", "params": {"level": "info", "data": "x" * (20 << 20)}})
        if options.flood and message["method"] == "tools/call":
            threading.Thread(target=flood, daemon=True).start()


if __name__ == "__main__":
    main()
