"""Finds the MCP clients on this machine and their configuration files, and puts mcpproxy in front of their servers.

`mcpproxy run` does not import this package.
"""
