"""A model for one tool call, on loopback: it answers the Responses API with one tool call, then one word.

    python -m tests.hosts.model PORT TOOL ARGUMENTS -- COMMAND...

Runs the command while it serves, and exits with the command's exit status.
"""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Model(BaseHTTPRequestHandler):
    tool = arguments = ""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        call = {"type": "function_call", "id": "f", "call_id": "c", "name": self.tool, "arguments": self.arguments}
        word = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        if "__" in self.tool:
            call["namespace"], _, call["name"] = self.tool.rpartition("__")
        item = word if b"function_call_output" in asked else call
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": "r", "usage": usage}},
        ]
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def main(port: int, tool: str, arguments: str, command: list[str]) -> int:
    """Serve while the command runs; returns its exit status."""
    _Model.tool, _Model.arguments = tool, arguments
    with ThreadingHTTPServer(("127.0.0.1", port), _Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        server.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[5:]))
