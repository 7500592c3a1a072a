"""Capture files: the format of a recording, and the code that writes and reads it.

This is a small library on which everything else in this repository builds. FORMAT.md in this folder is the only
authority on bytes. Import the modules by name: this package loads none of them, because the recorder starts without the
readers.
"""
