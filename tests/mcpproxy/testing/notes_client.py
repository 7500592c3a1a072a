"""A client without an SDK, which starts quickly: it asks a server of notes that is started by a command."""

import json
import subprocess
from typing import Any, Self


class Client:
    """Starts a server, and asks it."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._id = 0

    def __enter__(self) -> Self:
        client = {"name": "finder", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self._send(method="notifications/initialized")
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def ask(self, method: str, **params: Any) -> Any:
        """Returns the response to a request."""
        self._id += 1
        self._send(id=self._id, method=method, params=params)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def find(self, text: str) -> list[str]:
        """Returns the names of the notes that contain a text; nothing if the server refuses."""
        answer = self.ask("tools/call", name="search", arguments={"text": text})
        return [content["text"] for content in answer.get("result", {"content": []})["content"]]

    def _send(self, **members: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")
        self._process.stdin.flush()
