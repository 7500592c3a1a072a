"""Runs untrusted SQL in a sandboxed child process: the parent, the child, and the protocol between them."""
