"""A network namespace without a way out: programs that the zoo starts can only reach loopback."""

import ctypes
import fcntl
import os
import socket
import struct

_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = 1


def leave_the_network() -> str | None:
    """Move this thread, and every process it starts, to a network namespace with only loopback.

    Returns the reason if that is impossible, else None.
    """
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
    except (AttributeError, OSError):
        return "this system has no network namespaces"
    if unshare(_NEW_NETWORK | (_NEW_USER if os.geteuid() else 0)):
        return os.strerror(ctypes.get_errno())
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    return None
