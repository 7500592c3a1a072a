"""Answers each request line with a result that holds the request's params; ends when its stdin does.

    echo.py [--raw] [--status N]

`--raw` sends back every byte as it came, chunk by chunk, even if it is not a request. `--status` is the exit
status.
"""

import argparse
import json
import os
import sys


def answer(line: bytes) -> None:
    try:
        request = json.loads(line)
    except ValueError:
        return
    if isinstance(request, dict) and "id" in request and "method" in request:
        result = {"jsonrpc": "2.0", "id": request["id"], "result": {"echo": request.get("params", {})}}
        os.write(1, json.dumps(result, separators=(",", ":")).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    rest = b""
    while chunk := os.read(0, 65536):
        if options.raw:
            while chunk:
                chunk = chunk[os.write(1, chunk) :]
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            answer(line)
    return int(options.status)


if __name__ == "__main__":
    sys.exit(main())
