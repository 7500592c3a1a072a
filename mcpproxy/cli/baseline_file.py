"""Reads the accepted findings or changes of a baseline file, and replaces the file with those of a run.

The file has a line for each distinct finding of `check` or change of `compare`, without anything that varies from run
to run, such as times and record numbers. Captures are named relative to the folder of the baseline. An entry that
occurs again keeps its message and capture, and the order depends on neither, so a diff shows only new and removed
entries.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from analysis.checking.baseline import MAX_FINGERPRINTS, Baseline, BaselineError, findings_by_fingerprint
from analysis.comparison.change import Change
from captures.errors import CaptureError
from mcpproxy.check_run.result import STDIN, LocatedFinding
from mcpproxy.importers.source import read_lines
from mcpproxy.wording.counts import count_text


def read_baseline(name: str) -> Baseline:
    """Read a baseline file.

    Raises:
        CaptureError: the file cannot be read, or is not a baseline.
    """
    return Baseline(_read_entries(name))


class NewBaseline:
    """A baseline that is being updated: the entries of the file, and the entries of this run that replace them."""

    def __init__(self, name: str, *, narrowing_options: str) -> None:
        """Read the file `name`, which need not exist yet.

        Args:
            name: the file.
            narrowing_options: the options of the command with which fewer entries result, for an error.

        Raises:
            CaptureError: it exists and cannot be read, or is not a baseline.
        """
        self._name = name
        self._narrowing_options = narrowing_options
        self._folder = os.path.dirname(os.path.abspath(name))
        self._old_entries = _read_entries(name) if os.path.lexists(name) else {}
        self._new_entries: dict[str, dict[str, Any]] = {}

    @property
    def accepted(self) -> Baseline:
        """The baseline that the file contains now."""
        return Baseline(self._old_entries)

    def accept_finding(self, located: LocatedFinding) -> None:
        """Accept a finding in later runs.

        Raises:
            CaptureError: there are too many distinct findings.
        """
        if located.fingerprint not in self._new_entries:
            self._add(located.fingerprint, self._finding_entry(located))

    def accept_change(self, change: Change) -> None:
        """Accept a change in later runs.

        Raises:
            CaptureError: there are too many distinct changes.
        """
        fingerprint = change.fingerprint
        if fingerprint not in self._new_entries:
            entry = {
                "rule": change.kind.id,
                "level": str(change.severity),
                "method": change.subject,
                "pointer": change.pointer,
                "message": change.full_message,
            }
            self._add(fingerprint, entry)

    def _add(self, fingerprint: str, entry: dict[str, Any]) -> None:
        if len(self._new_entries) == MAX_FINGERPRINTS:
            raise CaptureError(
                f"cannot write the baseline {self._name}: it would have more than {MAX_FINGERPRINTS:,} entries; "
                f"use {self._narrowing_options} to select fewer"
            )
        old_entry = self._old_entries.get(fingerprint, {})
        # The user may have pasted a line of `check --format json`, whose capture has the name used in that run.
        if "t_ns" not in old_entry:
            entry |= {member: old_entry[member] for member in entry.keys() & old_entry.keys() & {"message", "capture"}}
        self._new_entries[fingerprint] = entry

    def write(self) -> str:
        """Replace the file atomically; returns a summary of the changes.

        Raises:
            CaptureError: it cannot be written.
        """
        rows = sorted(self._new_entries.items(), key=lambda item: (item[1]["rule"], item[1]["method"] or "", item[0]))
        with _replacement_file(self._name) as file:
            # Rows are ASCII: a peer's text cannot send control characters to a terminal that displays the file.
            file.writelines(json.dumps(row).encode() + b"\n" for _, row in rows)
        added, removed = (
            self._new_entries.keys() - self._old_entries.keys(),
            self._old_entries.keys() - self._new_entries.keys(),
        )
        count = count_text(len(rows), "entry", "entries")
        return f"{count} in the baseline {self._name}: {len(added):,} new, {len(removed):,} gone"

    def _finding_entry(self, located: LocatedFinding) -> dict[str, Any]:
        finding = located.finding
        return {
            "rule": finding.rule,
            "level": str(finding.level),
            "blames": finding.blames,
            "method": finding.method or None,
            "pointer": finding.pointer,
            "message": finding.message,
            "capture": str(STDIN) if located.capture == STDIN else os.path.relpath(located.capture, self._folder),
        }


def _read_entries(name: str) -> dict[str, dict[str, Any]]:
    try:
        with open(name, "rb") as file:
            return findings_by_fingerprint(read_lines(file))
    except OSError as error:
        raise CaptureError(f"cannot read the baseline {name}: {error.strerror}") from error
    except BaselineError as error:
        raise CaptureError(f"cannot read the baseline {name}: {error}") from error


@contextmanager
def _replacement_file(name: str) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `name` at the end, with the same mode; a symbolic link stays a link."""
    target = Path(os.path.realpath(name))
    temporary_path = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        if mode is not None and not target.is_file():
            raise CaptureError(f"cannot write the baseline {name}: it is not a regular file")
        try:
            with temporary_path.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                temporary_path.chmod(mode)
            temporary_path.replace(target)
        finally:
            with suppress(FileNotFoundError):
                temporary_path.unlink()
    except OSError as error:
        raise CaptureError(f"cannot write the baseline {name}: {error.strerror}") from error
