"""Exports captures in the formats of other tools.

Each exporter accepts the items of a capture in order, returns text for a file or objects for a sender, and opens no
file itself. Captures are untrusted: their text cannot escape from the member, the fence or the element that contains
it. Exporters write only what the capture contains, so values that the recorder replaced with hashes stay replaced.
"""
