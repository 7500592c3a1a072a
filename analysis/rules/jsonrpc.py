"""The rules of the group `jsonrpc`."""
