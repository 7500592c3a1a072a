"""Creates, replaces and removes the Unix socket of `serve` without taking it from another process."""

import os
import secrets
import socket
import stat
from contextlib import suppress
from typing import Final

from mcpproxy.cli.http_listener import UsageError

SOCKET_MODE: Final = 0o660
"""The permissions of the socket: the user and the group may connect, because a web server often shares only the group.
"""
BACKLOG: Final = 512


class UnixListener:
    """A listening Unix socket with a path."""

    def __init__(self, path: str) -> None:
        """Listen on a path; an existing socket is replaced if no process listens on it.

        Raises:
            UsageError: listening on the path is not possible; the text says why, and what to do.
        """
        self.path = os.path.abspath(path)
        self._refuse_if_used()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The socket is created under another name first, so the path never leads to a socket that does not listen yet
        # or has permissions that are too wide.
        temporary_path = f"{self.path}.{secrets.token_hex(4)}"
        try:
            self.socket.bind(temporary_path)
            try:
                os.chmod(temporary_path, SOCKET_MODE)
                self.socket.listen(BACKLOG)
                self._identity = _identity(temporary_path)
                self._refuse_if_used()
                os.rename(temporary_path, self.path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary_path)
                raise
        except UsageError:
            self.socket.close()
            raise
        except OSError as error:
            self.socket.close()
            reason = error.strerror or str(error)  # a path that is too long has no errno
            raise UsageError(f"cannot listen on unix:{path}: {reason}; choose another path") from error

    def _refuse_if_used(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except OSError:
            return
        if not stat.S_ISSOCK(mode):
            raise UsageError(f"cannot listen on unix:{self.path}: it exists and is not a socket; choose another path")
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with probe:
            # A listener whose backlog is full counts as a listener, and must not block this process.
            probe.setblocking(False)
            try:
                probe.connect(self.path)
            except (ConnectionRefusedError, FileNotFoundError):
                return
            except OSError:
                pass
        raise UsageError(f"cannot listen on unix:{self.path}: a process listens there already; choose another path")

    def remove_path(self) -> None:
        """Remove the path if it still leads to this socket."""
        with suppress(OSError):
            if _identity(self.path) == self._identity:
                os.unlink(self.path)


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino
