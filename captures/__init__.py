"""Captures at rest: what a recording is, how it is written and how it is read back.

A small library of its own, below everything else in this repository; FORMAT.md beside this file is the only authority
on bytes. Import the modules by name: this package loads none of them, because the recorder starts without the readers.
"""
