"""`NamedTuple` without `typing`, for modules that load while an MCP client waits for its server.

`typing`, with the `re` and `enum` that it loads, takes 6 ms of every start, and these modules need only this class from
it at run time. So they use types only in annotations, which are never evaluated, and import this class from here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _FromAnnotations(type):
        """Turns a class with annotations into a named tuple, as `typing.NamedTuple` does."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = list(body["__annotations__"])
            defaults = [body[field] for field in fields if field in body]
            tuple_class = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            tuple_class.__doc__ = body.get("__doc__")
            for member in body:
                if member not in fields and not member.startswith("__"):
                    setattr(tuple_class, member, body[member])
            return tuple_class

    class NamedTuple(metaclass=_FromAnnotations):
        """The base class for named tuples."""
