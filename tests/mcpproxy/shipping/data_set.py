"""A shipped data set as its readers see it: by the manifests, as docs/scale.md says, or by all files."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.parquet import parquet_reader


def written(folder: Path, number: int, wall_ns: int = OPENED, secret: str = "", *, tables: int = 6) -> Path:
    """Write a closed capture with rows in six tables, in four, or in three if it has no frames."""
    folder.mkdir(parents=True, exist_ok=True)
    one = CaptureWriter(folder / f"{number}.mcpcap", f"server-{number}", number, wall_ns)
    if tables == 3:
        one.record(1, "stderr", raw=f"{secret}{number}", size=8)
        return one.close()
    one.handshake()
    if tables == 6:
        one.ask(20, 1, "tools/list")
        one.answer(21, 1, tools=[{"name": "search", "inputSchema": {"type": "object"}}])
        one.record(22, "stderr", raw="starting", size=8)
    one.call(30, 2, "search", password=secret)
    one.fail(32, 2, f"no such thing: {number}")
    return one.close()


def large(path: Path, frames: int, number: int = 0) -> Path:
    """Write a closed capture with that many frames of 600 kB, which compress to half their size at best."""
    path.parent.mkdir(parents=True, exist_ok=True)
    one = CaptureWriter(path, "large", number)
    for id_ in range(frames):
        one.call(id_, id_, "search", text=os.urandom(300_000).hex())
    return one.close()


def documents(root: Path, folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((root / folder).glob("*.json"))]


def named(root: Path) -> list[dict[str, Any]]:
    """Returns the files that readers read."""
    days = documents(root, "_days")
    held = {capture["capture"] for day in days for capture in day["captures"]}
    files = [file for day in days for file in day["files"]]
    for manifest in documents(root, "_manifests"):
        own = [file for file in manifest["files"] if file["table"] == "raw" or manifest["capture"] not in held]
        files += own
    return files


def rows(root: Path) -> dict[str, list[Any]]:
    """Returns all rows by the manifests, by table, sorted; every file must match its manifest."""
    found: dict[str, list[Any]] = {}
    with parquet_reader() as read:
        for file in named(root):
            data = (root / file["name"]).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size"], file["sha256"]), file["name"]
            if file["table"] != "raw":
                some = read([root / file["name"]])
                assert len(some) == file["rows"]
                found.setdefault(file["table"], []).extend(some)
    return {table: sorted(some, key=repr) for table, some in found.items()}


def present(root: Path) -> set[str]:
    """Returns the names of all files except hidden ones."""
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {name for name in names if not name.startswith((".", "_"))}


def is_tidy(root: Path) -> bool:
    """Returns whether a manifest names every file, so that readers that ignore manifests see the same rows."""
    return present(root) == {file["name"] for file in named(root)}


__all__ = ["DAY", "OPENED", "documents", "is_tidy", "large", "named", "present", "rows", "written"]
