"""The forms of variables in clients' entries, as regular expressions with the groups `name` and `default`."""

from __future__ import annotations

from typing import Final

SHELL_FORM: Final = r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}"
BARE_FORM: Final = r"\$(?P<name>[A-Za-z_]\w*)"
ENV_FORM: Final = r"\$\{env:(?P<name>\w+)\}"
ENV_OR_EMPTY_FORM: Final = r"\$\{env:(?P<name>[^}]+)(?P<default>)\}"
"""The form in editors that replace an unset variable with an empty string."""
FOLDER_FORM: Final = r"(?P<name>\$\{(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator|/)\})"
"""Variables that editors define; `name` is the whole text, so it cannot be the name of an environment variable."""
EDITOR_FORMS: Final = (
    r"\$\{(?:input|command|config|extensionInstallFolder|workspaceFolder|workspaceFolderBasename):[^}]*\}",
    r"\$\{(?:file\w*|relativeFile\w*|lineNumber|columnNumber|selectedText|execPath|defaultBuildTask|cwd)\}",
)
"""Variables that only an editor knows: inputs, settings, and the open file."""

# The forms of mcporter, as in its env.ts. In `env`, a whole value may be a variable, which is empty if unset;
# elsewhere, an unset variable is an error. Values in `env` that do not begin with `$` contain no variables.
MCPORTER_ENV_FORM: Final = r"\A\$env:(?P<name>.+)\Z"
MCPORTER_WHOLE_FORM: Final = r"\A\$\{(?P<name>[A-Za-z_]\w*)(?::-|:|-)?(?P<default>[^}]*)\}\Z"
MCPORTER_LEADING_FORM: Final = rf"\A{SHELL_FORM}"
