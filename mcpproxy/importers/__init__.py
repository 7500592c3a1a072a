"""Importers: convert conversations logged by other tools into the records of a capture.

Nothing here opens a file. The importers turn lines of a log into whole lines of a capture, so that a command can write
these, and a check can read them without a capture file. The code that records live traffic also splits, judges and
records the imported frames, bodies and events.
"""
