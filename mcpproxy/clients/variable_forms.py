"""How clients write variables in entries, as regular expressions: `name` is the variable, `default` its default."""

from __future__ import annotations

from typing import Final

SHELL: Final = r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}"
BARE: Final = r"\$(?P<name>[A-Za-z_]\w*)"
ENV: Final = r"\$\{env:(?P<name>\w+)\}"
ENV_OR_EMPTY: Final = r"\$\{env:(?P<name>[^}]+)(?P<default>)\}"
"""The form of editors that replace an unset variable with an empty text."""
FOLDERS: Final = r"(?P<name>\$\{(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator|/)\})"
"""Variables that editors define; doctor looks up their values by the whole text, which cannot be the name of an
environment variable.
"""
EDITOR: Final = (
    r"\$\{(?:input|command|config|extensionInstallFolder|workspaceFolder|workspaceFolderBasename):[^}]*\}",
    r"\$\{(?:file\w*|relativeFile\w*|lineNumber|columnNumber|selectedText|execPath|defaultBuildTask|cwd)\}",
)
"""Variables that only an editor knows: inputs, settings, and the open file."""

# The forms of mcporter, as in its env.ts. In `env`, a whole value may be a variable, which is empty if unset; elsewhere
# an unset variable is an error. A value in `env` that does not begin with `$` has no variables.
DIRECT: Final = r"\A\$env:(?P<name>.+)\Z"
WHOLE: Final = r"\A\$\{(?P<name>[A-Za-z_]\w*)(?::-|:|-)?(?P<default>[^}]*)\}\Z"
LEADING: Final = rf"\A{SHELL}"
