"""Where copied text goes: through the terminal to the clipboard, or to a private file if that is not possible.

A terminal does not say whether it accepts text for the clipboard (OSC 52). A few terminals are known not to accept it;
on all others, the user can choose the file instead. There is only one such file: each copy replaces the previous one,
as in a clipboard.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from textual.app import App

from captures.paths import state_directory
from mcpproxy.tui.copies.copy_forms import CopyForm
from mcpproxy.tui.safe_text import notify, to_clipboard
from mcpproxy.wording.units import size

FILE_NAME: Final = "copied.txt"
"""The file in the state directory."""
_TERMS_WITHOUT_CLIPBOARD: Final = frozenset({"linux", "dumb", "vt100", "vt102", "vt220", "cons25"})
"""Values of TERM for terminals without a clipboard."""


def has_clipboard(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal may accept text for the clipboard."""
    return (
        variables.get("TERM", "") not in _TERMS_WITHOUT_CLIPBOARD and variables.get("TERM_PROGRAM") != "Apple_Terminal"
    )


def copy(app: App[None], form: CopyForm) -> None:
    """Copy text to the clipboard, or to the file if that is not possible or the user prefers it; notify the user."""
    amount = f"{form.word}, {size(len(form.text.encode()))}"
    if form.fits_clipboard and not form.wants_file and has_clipboard():
        to_clipboard(app, form.text)
        notify(app, f"copied {amount}, if the terminal allows it")
        return
    try:
        path = write_copy(form.text)
    except OSError as error:
        notify(app, f"cannot write {amount}, to a file: {error.strerror or error}", bad=True)
        return
    prefix = (
        "" if form.wants_file else "too large for the clipboard: " if not form.fits_clipboard else "no clipboard here: "
    )
    notify(app, f"{prefix}wrote {amount}, to {path}")


def write_copy(text: str) -> Path:
    """Write text to the file, which only the user can read; returns its path.

    Raises:
        OSError: it cannot be written.
    """
    folder = state_directory()
    if folder is None:
        raise OSError(0, "your home directory is not known")
    path = Path(folder, FILE_NAME)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary_name = tempfile.mkstemp(prefix=f".{FILE_NAME}-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text + "\n")
        Path(temporary_name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary_name).unlink()
        raise
    return path
