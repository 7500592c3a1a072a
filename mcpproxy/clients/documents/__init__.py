"""Edits the configuration files of MCP clients in place: only the bytes of an edit change.

`json_text`, `toml_text` and `yaml_text` parse a file and find the positions of its values. `edits` describes edits
independently of the format. `document` applies them to the text and checks that the result has the expected data.
"""
