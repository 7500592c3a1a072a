"""Exporters: captures in the formats of other tools.

Each takes the items of a capture in order and returns text for a file, or objects for a sender, and opens no file
itself. A capture is hostile: its text cannot leave the member, the fence or the element that holds it. Only content of
the capture is written, so what a recorder has replaced with a hash stays replaced.
"""
