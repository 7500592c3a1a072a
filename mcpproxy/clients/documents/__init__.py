"""Edits the configuration files of MCP clients in place: only the bytes of an edit change.

A file is read as text with positions (`json_text`, `toml_text`, `yaml_text`), an edit is described without a format
(`edits`), and `document` applies edits to the text and proves that the result says what was meant.
"""
