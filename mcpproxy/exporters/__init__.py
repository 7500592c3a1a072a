"""Exporters: captures in the formats of other tools.

Each takes the items of a capture in order and returns text for a file, or objects for a sender, and opens no file
itself. A capture is hostile: text of it cannot leave the member, the fence or the element that holds it. Nothing
is written that the capture does not hold, so what a recorder has replaced by a hash stays replaced.
"""
