"""A server on stdio that says what it got: each call is answered with its own bytes, after what its tool does.

The tool `progress` reports progress; `ask` asks the client for a sample and answers with the response; `end` ends.
"""

import json
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params", {})
        text = line.strip()
        if message.get("method") == "initialize":
            if params.get("protocolVersion") == "refused":
                send({"id": message["id"], "error": {"code": -32602, "message": "no"}})
                continue
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "s"}}
            send({"id": message["id"], "result": result})
            continue
        if "id" not in message or "method" not in message:
            sys.stderr.write(f"told {text}\n")
            sys.stderr.flush()
            continue
        tool = params.get("name")
        if tool == "end":
            sys.exit("this is the end")
        if tool == "progress":
            token = params["_meta"]["progressToken"]
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        if tool == "ask":
            send({"id": 1, "method": "sampling/createMessage", "params": {"_meta": {"progressToken": 1}}})
            text = sys.stdin.readline().strip()
        send({"id": message["id"], "result": {"got": text}})


main()
