"""Capture files: the format of a recording, and how it is written and read back.

A small library that everything else in this repository builds on. FORMAT.md in this folder is the only authority on
bytes. Import the modules by name: this package loads none of them, because the recorder starts without the readers.
"""
