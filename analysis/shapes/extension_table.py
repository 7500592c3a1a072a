"""The shapes of the bodies that extensions define, in a file for each extension: `extensions/NAME.json`.

NAME is the extension's group of rules without `ext-`. The files are written by hand, from the documents that define the
extensions. A file has these members:

- `source`: the document.
- `bodies`: the object that each body must be, by its part and method: `params skills/list`, `result skills/list`, or
  `notification` with the method for the params of a notification. A body that is not listed is not judged.
- `objects`: the members of each object, by its key, which begins with NAME: `skills/Skill`. Other members are allowed.

Of a member, `is` says what it must be (the declarations of `body_table.json`):

- a word: `string`, `integer`, `number`, `boolean`, or `any`;
- the key of an object: of this file, or of the newest revisions, such as `modern/Resource`;
- `{"array": D}`, `{"map": D}` (an object with arbitrary names), `{"choice": ["a", "b"]}` (texts), or
  `{"any of": [D, D]}`. Of several objects, the constant in their member `type`, `method` or `mode` decides, or else the
  members that are there.

`required`, `nullable`, `least`, `most` and `format` (`uri` or `base64`) say more about it. `_meta` and `resultType` are
left out, and so are `ttlMs` and `cacheScope`: the core has rules about them.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import orjson

from analysis.protocol.extensions import EXTENSIONS, Extension

FOLDER: Final = Path(__file__).with_name("extensions")


def short_name(extension: Extension) -> str:
    """Returns the name of an extension in keys of objects, and of its file."""
    return extension.group.removeprefix("ext-")


def has_shapes(extension: Extension) -> bool:
    """Whether there is a file with the shapes of an extension."""
    return short_name(extension) in _names()


def object_key_of(extension: Extension, row: str) -> str | None:
    """Returns the key of the object that a body must be, or None if the body is not judged.

    Args:
        extension: the extension.
        row: the part and the method, as in the file.
    """
    return cast("dict[str, str]", table_of(short_name(extension))["bodies"]).get(row) if has_shapes(extension) else None


def extension_objects(prefix: str) -> dict[str, Any] | None:
    """Returns the objects whose keys begin with the name of an extension, or None if it is not such a name."""
    return cast("dict[str, Any]", table_of(prefix)["objects"]) if prefix in _names() else None


@cache
def table_of(name: str) -> dict[str, Any]:
    """Returns the content of the file of an extension, by its name."""
    return cast("dict[str, Any]", orjson.loads((FOLDER / f"{name}.json").read_bytes()))


@cache
def _names() -> frozenset[str]:
    names = (short_name(extension) for extension in EXTENSIONS.values())
    return frozenset(name for name in names if (FOLDER / f"{name}.json").is_file())
