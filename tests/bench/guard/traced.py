"""Writes which lines a process has executed, and for which test, when it exits in any way.

It is copied into the environment of a scratch tree and imported at the start of every Python there, so it uses nothing
of this repository. A command finds the name of its test in the environment; without an environment, it takes the name
from the process that started it. Processes that are killed, or exec another program, leave no lines.
"""

import atexit
import json
import os
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_SETTINGS = json.loads(Path(__file__).with_name("guard_traced.json").read_text("utf-8"))
_FOLDER = Path(_SETTINGS["folder"])
_exit = os._exit
_coverage: Any = None
_fallback = ""


def _begin() -> None:
    global _coverage, _fallback
    made = import_module("coverage").Coverage(
        data_file=None, config_file=False, include=_SETTINGS["include"], messages=False
    )
    made.set_option("run:disable_warnings", ["no-data-collected", "no-ctracer", "module-not-measured"])
    made.start()
    _coverage, _fallback = made, _of_parent()


def _of_parent() -> str:
    parent = os.getppid()
    try:
        return (_FOLDER / f"now-{parent}").read_text("utf-8")
    except OSError:
        pass
    try:
        variables = Path(f"/proc/{parent}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((text.partition(b"=")[2].decode() for text in variables if text.startswith(b"GUARD_TEST=")), "")


def enter(context: str) -> None:
    """Attribute what this process executes from now on to a test."""
    if _coverage is not None:
        _coverage.switch_context(context)
        (_FOLDER / f"now-{os.getpid()}").write_text(context, "utf-8")


def save() -> None:
    """Write what was executed, once."""
    global _coverage
    made, _coverage = _coverage, None
    if made is None:
        return
    try:
        made.stop()
        data = made.get_data()
        own = os.environ.get("GUARD_TEST") or _fallback
        rows: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    rows.setdefault(context or own, {}).setdefault(file, []).append(line)
        if rows:
            (_FOLDER / f"{uuid.uuid4().hex}.json").write_text(json.dumps(rows), "utf-8")
    except Exception:  # noqa: BLE001 - the disk is full or memory is limited: such a process leaves no lines
        return


def _save_and_exit(status: int) -> NoReturn:
    save()
    _exit(status)


def _after_fork() -> None:
    global _coverage
    before, _coverage = _coverage, None
    if before is not None:
        try:
            before.stop()
            _begin()
        except Exception:  # noqa: BLE001 - better no lines than a test that fails
            return


_begin()
os._exit = _save_and_exit
os.register_at_fork(after_in_child=_after_fork)
atexit.register(save)
