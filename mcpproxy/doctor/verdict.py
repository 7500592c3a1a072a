"""The base class of verdicts: each verdict is one fault that a server can have, and has a page of its own."""

from __future__ import annotations

import inspect
import re
from typing import ClassVar, Final, NamedTuple

HEADINGS: Final = ("What it means", "What to do")
"""The parts of every page."""


class Verdict:
    """A fault, or a remark on something that may become one. The docstring of each subclass is its page."""

    id: ClassVar[str]
    """The id, which is never reused; with `-` for `/`, it is also the name of the page."""
    fails: ClassVar[bool] = True
    """Whether the server cannot be used; False for a remark."""
    leaves_unexamined: ClassVar[bool] = False
    """Whether this is the reason why the server was neither started nor sent a request."""

    @classmethod
    def title(cls) -> str:
        """Return a sentence that says what is wrong."""
        return (inspect.getdoc(cls) or "").partition("\n")[0].rstrip(".")

    @classmethod
    def first_step(cls) -> str:
        """Return the first sentence of "What to do"."""
        _, _, steps = (inspect.getdoc(cls) or "").partition("**What to do.** ")
        return re.split(r"(?<=\.)\s", steps, maxsplit=1)[0].replace("\n", " ").rstrip(".")


class Diagnosis(NamedTuple):
    """A verdict on one server, with the evidence for it."""

    verdict: type[Verdict]
    evidence: str
    """The observation. It may contain text from the server, so it is untrusted."""
    advice: str = ""
    """Advice for this case, if there is more to say than the page does."""
