"""A server that starts quickly: one tool, `search`, and a secret in what it says. It notes each start in a file.

notes_server.py STARTS
"""

import json
import sys
from typing import Any

NOTES = {"groceries": "milk, bread", "travel": "book the night train"}

with open(sys.argv[1], "a") as starts:
    starts.write("started\n")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    params = request.get("params", {})
    result: dict[str, Any]
    if request["method"] == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}
    else:
        found = [name for name, note in NOTES.items() if params["arguments"]["text"] in note]
        result = {"content": [{"type": "text", "text": name} for name in found]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
