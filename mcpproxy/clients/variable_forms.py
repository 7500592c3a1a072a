"""The forms of variables in clients' entries, as regular expressions with the groups `name` and `default`."""

from __future__ import annotations

from typing import Final

SHELL: Final = r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}"
BARE: Final = r"\$(?P<name>[A-Za-z_]\w*)"
ENV: Final = r"\$\{env:(?P<name>\w+)\}"
ENV_OR_EMPTY: Final = r"\$\{env:(?P<name>[^}]+)(?P<default>)\}"
"""The form in editors that replace an unset variable with an empty string."""
FOLDERS: Final = r"(?P<name>\$\{(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator|/)\})"
"""Variables that editors define; `name` is the whole text, so it cannot be the name of an environment variable."""
EDITOR: Final = (
    r"\$\{(?:input|command|config|extensionInstallFolder|workspaceFolder|workspaceFolderBasename):[^}]*\}",
    r"\$\{(?:file\w*|relativeFile\w*|lineNumber|columnNumber|selectedText|execPath|defaultBuildTask|cwd)\}",
)
"""Variables that only an editor knows: inputs, settings, and the open file."""

# The forms of mcporter, as in its env.ts. In `env`, a whole value may be a variable, which is empty if unset;
# elsewhere, an unset variable is an error. Values in `env` that do not begin with `$` contain no variables.
DIRECT: Final = r"\A\$env:(?P<name>.+)\Z"
WHOLE: Final = r"\A\$\{(?P<name>[A-Za-z_]\w*)(?::-|:|-)?(?P<default>[^}]*)\}\Z"
LEADING: Final = rf"\A{SHELL}"
