"""The output of the commands that read captures, from rows to text. Nothing here opens a capture or a terminal."""
