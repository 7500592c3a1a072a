"""Runs untrusted SQL in a sandboxed child process: the parent, the child, and what they say to each other."""
