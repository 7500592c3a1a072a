"""Importers: convert conversations logged by other tools into the records of a capture.

Nothing here opens a file: lines come in, whole lines of a capture go out, so that a command can write them and a check
can read them without either. Frames, bodies and events are split, judged and recorded by the code that records live
traffic.
"""
