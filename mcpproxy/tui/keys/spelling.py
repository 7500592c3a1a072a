"""How keys are written on all screens: `Ctrl+S`, `F1`, `esc`, `n`."""

from textual.keys import format_key


def key_text(key: str) -> str:
    """Returns how a key is written.

    Args:
        key: its name in a binding or in `keys.toml`, such as `ctrl+s` or `question_mark`.
    """
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    text = format_key(name)
    is_capital = bool(modifiers) and len(text) == 1
    if is_capital or (name.startswith("f") and name[1:].isdecimal()):
        text = text.upper()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), text])


def keys_text(keys: str) -> str:
    """Returns how the keys of a binding are written, which are separated by commas."""
    return ",".join(map(key_text, keys.split(",")))
