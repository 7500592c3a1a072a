"""What a verdict is: one fault that keeps a server from coming up, with a page of its own."""

from __future__ import annotations

import inspect
import re
from typing import ClassVar, Final, NamedTuple

HEADINGS: Final = ("What it means", "What to do")
"""The parts of every page."""


class Verdict:
    """One fault, or one thing that is likely to become one. The docstring of each subclass is its page."""

    id: ClassVar[str]
    """Never reused for anything else; also the name of its page, with `-` for `/`."""
    fails: ClassVar[bool] = True
    """Whether the server cannot be used; False for a remark."""
    leaves_unexamined: ClassVar[bool] = False
    """Whether it is the reason that the server was neither started nor sent a request, so nothing is known about it."""

    @classmethod
    def title(cls) -> str:
        """What is wrong, in one line."""
        return (inspect.getdoc(cls) or "").partition("\n")[0].rstrip(".")

    @classmethod
    def first_step(cls) -> str:
        """The first sentence of what to do."""
        _, _, steps = (inspect.getdoc(cls) or "").partition("**What to do.** ")
        return re.split(r"(?<=\.)\s", steps, maxsplit=1)[0].replace("\n", " ").rstrip(".")


class Diagnosis(NamedTuple):
    """A verdict on one server, with what proves it."""

    verdict: type[Verdict]
    evidence: str
    """What was observed. It may contain the server's text, so it is untrusted."""
    advice: str = ""
    """What to do in this case, if there is more to say than the page does."""
