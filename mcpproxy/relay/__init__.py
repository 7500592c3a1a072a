"""Moves bytes between a client and a server without changing any; knows no format and no file.

A `Tap` sees all bytes before they are handed on. On stdio, the relay uses only the standard library, with blocking
threads on raw descriptors: event loops fail on files and /dev/null, and leave O_NONBLOCK set on descriptors that the
relay only shares.
"""
