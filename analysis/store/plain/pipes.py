"""Messages as `analysis.child_process` frames them, over descriptors."""

import os
from typing import Any

import orjson

from analysis.child_process import write_all


def write(fd: int, message: bytes) -> None:
    """Write a message, all of it."""
    write_all(fd, len(message).to_bytes(4) + message)


def read(fd: int) -> dict[str, Any] | None:
    """The next message from a trusted writer; None at the end."""
    wanted, data = 4, bytearray()
    while len(data) < wanted:
        piece = os.read(fd, wanted - len(data))
        if not piece:
            return None
        data += piece
        if len(data) == 4:
            wanted += int.from_bytes(data)
    message: dict[str, Any] = orjson.loads(data[4:])
    return message
