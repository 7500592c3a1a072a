"""Moves bytes between a client and a server and changes none; knows no format and no file.

A `Tap` sees all bytes before they are handed on. Everything here is standard library, blocking threads on raw
descriptors: event loops fail on files and /dev/null, and leave O_NONBLOCK behind on descriptors that we only
borrowed.
"""
