"""Which captures the arguments of a reading command mean.

An existing path comes first, a folder stands for all captures below it, then a server's name, then what `ls` prints of
a capture or SQL calls it; `-` is a capture on stdin; nothing at all is the newest capture. When nothing is found the
message says where was looked, because hosts record with environments of their own.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from captures.errors import CaptureError, NotACapture
from captures.identity import DIGITS, capture_id, path_id
from captures.listing import find_captures, newest_first, real_path, search_roots
from captures.places import SUFFIX, slug
from captures.reader import Capture
from mcpproxy.sanitise import sanitise

NOTHING_YET = """Nothing recorded yet. Put this in front of a server's command in your client's configuration:

    mcpproxy run --

or see a session right now:  mcpproxy demo
"""

_ID: Final = re.compile(rf"[0-9a-f]{{8,{DIGITS}}}")
"""The id of a capture, or so much of its beginning as tables of SQL show."""


def all_captures() -> list[Path]:
    """Every capture of this user, the newest first."""
    return each_once(path for root in search_roots() for path in find_captures(root))


def each_once(paths: Iterable[Path]) -> list[Path]:
    """Captures, the newest first; one that is reached by two names, once."""
    return newest_first({real_path(path): path for path in paths}.values())


@contextmanager
def selected(arguments: list[str], *, newest_only: bool = True) -> Iterator[list[Path]]:
    """The captures that the arguments mean; stdin is kept in a private file meanwhile.

    Args:
        arguments: paths, folders, servers' names or `-`.
        newest_only: of a server, or of all where nothing is named, take the newest capture only.

    Raises:
        NotACapture: an argument means nothing, or there is no capture at all.
    """
    with ExitStack() as stack:
        if not arguments:
            paths = all_captures()
            if not paths and newest_only:
                raise NotACapture(f"there is no capture yet; looked in {_places()}; `mcpproxy demo` makes one")
            yield paths[:1] if newest_only else paths
            return
        yield [path for argument in arguments for path in _meant(argument, stack, newest_only=newest_only)]


def _meant(argument: str, stack: ExitStack, *, newest_only: bool) -> list[Path]:
    if not argument:
        return _nothing("the name of a capture is empty")
    if argument == "-":
        if sys.stdin is None:
            raise NotACapture("stdin is closed: there is nothing to read from; name a capture")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcpproxy-"))
        path = Path(folder, f"stdin{SUFFIX}")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [path]
    path = Path(argument)
    if path.is_dir() and (below := find_captures(path)):
        return below
    if (path.exists() or path.is_symlink()) and not path.is_dir():
        return [path]
    known = all_captures()
    # Of a name that is all punctuation nothing is left, and it must not mean the servers whose names were like that.
    wanted = slug(argument)
    if wanted and (named := [found for found in known if found.parent.name == wanted]):
        return named[:1] if newest_only else named
    if listed := [found for found in known if _is_called(found, argument)]:
        return listed
    if _ID.fullmatch(argument) and (identified := _identified(known, argument)):
        return identified
    if path.is_dir():
        return _nothing(f"no captures in {sanitise(argument)}")
    if "/" in argument or argument.endswith(SUFFIX):
        return [path]
    return _nothing(f"there is no capture, folder or server called {sanitise(argument)}; looked in {_places()}")


def _is_called(path: Path, argument: str) -> bool:
    """Whether an argument is what `ls` prints of a capture: its file name, or the end of it."""
    stem, wanted = path.name.removesuffix(SUFFIX), argument.removesuffix(SUFFIX)
    return wanted in (stem, f"{path.parent.name}/{stem}") or (len(wanted) >= 4 and stem.endswith(f"-{wanted}"))


def _identified(known: list[Path], begun: str) -> list[Path]:
    """Those captures whose id begins so; several only where it is the whole id of each.

    Raises:
        NotACapture: it begins the ids of several.
    """
    found: dict[str, list[Path]] = {}
    for path in known:
        try:
            # SQL calls one by its path where another has its id.
            ids = capture_id(Capture(path)), path_id(path)
        except CaptureError:
            continue
        for id_ in dict.fromkeys(ids):
            if id_.startswith(begun):
                found.setdefault(id_, []).append(path)
    if len(found) > 1:
        return _nothing(f"the ids of {len(found)} captures begin with {begun}")
    return [path for paths in found.values() for path in paths]


def _nothing(message: str) -> list[Path]:
    raise NotACapture(f"{message}; `mcpproxy ls` lists what there is")


def _places() -> str:
    return (
        ", ".join(sanitise(str(root)) for root in search_roots())
        or "no place: neither HOME nor MCPPROXY_CAPTURES is set"
    )
