"""`NamedTuple` for modules on the path on which an MCP client waits for its server.

`typing` takes 6 ms of every start, with the `re` and `enum` that it loads, and all that this path needs of it while it
runs is this one class. So these modules name types in annotations only, which nobody evaluates, and take it from here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _FromAnnotations(type):
        """Makes of a class with annotations what `typing.NamedTuple` would make of it."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = list(body["__annotations__"])
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            made.__doc__ = body.get("__doc__")
            return made

    class NamedTuple(metaclass=_FromAnnotations):
        """The base of the classes to make."""
