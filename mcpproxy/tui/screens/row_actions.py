"""Actions on the rows of a capture: mark, annotate, copy, save what cannot be read, export."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType

from captures.errors import CaptureError
from captures.places import SUFFIX, safe_name
from mcpproxy.marks import CannotMark, Marks
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.clipboard import copy
from mcpproxy.tui.copies.copy_forms import CopyForm, forms
from mcpproxy.tui.copies.export_thread import Export
from mcpproxy.tui.copies.saving import saved
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.messages import AttachmentsRead, Copied, Exported, Marked, Saved
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.prompts import ChoiceScreen, LineScreen
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.text.content import Attachment
from mcpproxy.tui.text.rows import row_text
from mcpproxy.wording.counts import count_text

WIDTH: Final = 80
"""Cells of a line of a text that is read for its attachments alone."""


class RowActionsScreen(CaptureScreen):
    """A screen with rows of a capture, and a cursor on one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mark", "mark", id="mark"),
        Binding("M", "note", "note", show=False, id="note"),
        Binding("apostrophe", "next_mark", "next mark", show=False, id="next-mark"),
        Binding("c", "copy", "copy", id="copy"),
        Binding("e", "export", "export", id="export"),
        Binding("r", "rule", "rule", show=False, id="rule"),
        Binding("o", "save", "save", show=False, id="save"),
    ]

    def __init__(self, reading: Reading) -> None:
        """The screen of a capture."""
        super().__init__(reading)
        id_ = reading.index.header.members.get("capture")
        self.marks = Marks(reading.path, id_ if isinstance(id_, str) else "")
        self._files = ThreadPoolExecutor(1, "files")
        self._export: tuple[Export, StepThread] | None = None

    @property
    @abstractmethod
    def entry(self) -> int | None:
        """The entry at the cursor."""

    @abstractmethod
    def reach(self, entry: int) -> None:
        """Put the cursor on an entry, whatever the filter."""

    @abstractmethod
    def rows_shown(self) -> Sequence[int]:
        """The entries shown, ascending."""

    def on_mount(self) -> None:
        """Start reading the marks."""
        self._mark_by(self.marks.look)

    def on_unmount(self) -> None:
        """Cancel work in progress; an incomplete export is deleted."""
        self._files.shutdown(wait=False, cancel_futures=True)
        if self._export is not None:
            export, step_thread = self._export
            step_thread.stop()
            export.abandon()

    @property
    def exporting(self) -> str:
        """The progress of an export; empty if none is running."""
        if self._export is None:
            return ""
        export = self._export[0]
        return f"exporting {100 * export.written // max(1, len(export.rows))}%"

    # ---- rules

    def action_rule(self) -> None:
        """Show the pages of the rules with findings in the row, the worst first."""
        entry, findings = self.entry, self.reading.findings
        kept = sorted(findings.kept_at(entry), key=lambda finding: -finding.level) if entry is not None else []
        others = findings.rules_at(entry) if entry is not None else ()
        rules = dict.fromkeys([*(finding.rule for finding in kept), *others])
        if rules:
            self.app.push_screen(RuleScreen(*rules))
        else:
            notify(self.app, "this row has no findings")

    # ---- marks

    def _seq(self) -> int | None:
        """The record number of the row at the cursor."""
        entry = self.entry
        if entry is None:
            notify(self.app, "nothing is selected")
            return None
        row = self.reading.index.entry(entry)
        if row.sort == "damage":
            notify(self.app, "damage has no record number, so it cannot be marked")
            return None
        return row.seq

    def _mark_by(self, change: Callable[[], object]) -> None:
        """Change the marks, in a thread: the file may be on a network."""

        def work() -> None:
            problem = ""
            try:
                change()
            except CannotMark as error:
                problem = str(error)
            self.post_message(Marked(problem))

        self._files.submit(work)

    def action_mark(self) -> None:
        """Mark the row, or remove its mark; a row with a note keeps both."""
        seq = self._seq()
        if seq is not None:
            if self.marks.notes.get(seq):
                notify(self.app, "to remove the note and the mark, clear the note (M)")
            self._mark_by(lambda: self.marks.toggle(seq))

    def action_note(self) -> None:
        """Add a note to the row."""
        seq = self._seq()
        if seq is None:
            return

        def take(text: str | None) -> None:
            if text is not None:
                self._mark_by(lambda: self.marks.note(seq, text))

        self.app.push_screen(LineScreen(f"note on {seq:,}", self.marks.notes.get(seq, "")), take)

    def action_next_mark(self) -> None:
        """Go to the next marked row; after the last, to the first."""
        entry = self.entry
        seq = self.reading.index.entry(entry).seq if entry is not None else -1
        marked = self.marks.next(seq)
        row = self.reading.index.of_seq(marked) if marked is not None else None
        if row is None:
            notify(
                self.app, "no row is marked; press m to mark this row" if marked is None else "the marked row is gone"
            )
            return
        self.reach(row)
        note = self.marks.notes.get(marked or 0)
        if note:
            notify(self.app, note)

    @on(Marked)
    def _marked(self, event: Marked) -> None:
        if event.problem:
            notify(self.app, event.problem, bad=True)
        self.show_marks()

    @abstractmethod
    def show_marks(self) -> None:
        """Redraw, as the marks of rows may have changed."""

    def read_row(self, work: Callable[[int], None]) -> None:
        """Have a thread do something with the row at the cursor, which takes a look at the file; keys wait for it."""
        entry = self.entry
        if entry is None:
            notify(self.app, "nothing is selected")
        else:
            self.app.key_queue.wait_for(self._files.submit(work, entry))

    # ---- copying

    def action_copy(self) -> None:
        """Copy the row, in a chosen form."""

        def work(entry: int) -> None:
            try:
                choices = forms(self.reading, entry)
            except OSError as error:
                choices = [CopyForm("", "", "", error.strerror or str(error))]
            self.post_message(Copied(choices))

        self.read_row(work)

    @on(Copied)
    def _choose(self, event: Copied) -> None:
        choices = [form for form in event.forms if isinstance(form, CopyForm)]
        if not any(form.text for form in choices):
            notify(self.app, choices[0].remark if choices else "there is nothing to copy", bad=True)
            return
        self.app.push_screen(ChoiceScreen("copy as", choices, to_file=True), self._copy)

    def _copy(self, form: CopyForm | None) -> None:
        if form is not None:
            copy(self.app, form)

    # ---- saving images, sounds and blobs

    def action_save(self) -> None:
        """Save an image, a sound or a blob of the row to a new file."""

        def work(entry: int) -> None:
            try:
                writing = row_text(self.reading, entry, WIDTH)
            except OSError:
                writing = None
            seq = self.reading.index.entry(entry).seq
            self.post_message(AttachmentsRead(seq, writing.attachments if writing is not None else ()))

        self.read_row(work)

    @on(AttachmentsRead)
    def _choose_attachment(self, event: AttachmentsRead) -> None:
        attachments = [attachment for attachment in event.attachments if isinstance(attachment, Attachment)]
        if len(attachments) <= 1:
            for attachment in attachments:
                self._save_to(event.seq, "", attachment)
            if not attachments:
                notify(self.app, "this row has no image, sound or blob")
            return
        # More than there are digits cannot be chosen here.
        forms = [CopyForm(str(n), attachment.words, str(n)) for n, attachment in enumerate(attachments[:9], 1)]

        def take(form: CopyForm | None) -> None:
            if form is not None:
                self._save_to(event.seq, f"-{form.key}", attachments[int(form.key) - 1])

        self.app.push_screen(ChoiceScreen("save", forms), take)

    def _save_to(self, seq: int, place: str, attachment: Attachment) -> None:
        """Prompt for a file and save an attachment to it."""

        def take(name: str | None) -> None:
            if name and name.strip():
                self._files.submit(lambda: self.post_message(saved(attachment, name.strip())))

        default = f"{safe_name(self.reading.name)}-{seq}{place}.{attachment.ending}"
        self.app.push_screen(LineScreen(f"save {attachment.words} to", default), take)

    @on(Saved)
    def _saved(self, event: Saved) -> None:
        notify(self.app, event.words, bad=event.is_bad)

    # ---- export

    def action_export(self) -> None:
        """Prompt for a file and export the shown rows to it."""
        if self._export is not None:
            notify(self.app, f"{self.exporting} to {self._export[0].place.name}")
            return
        count = count_text(len(self.rows_shown()), "row")
        name = safe_name(self.reading.name)
        stem = self.reading.path.name.removesuffix(SUFFIX)
        self.app.push_screen(LineScreen(f"export {count} as JSON lines to", f"{name}-{stem}.jsonl"), self._begin)

    def _begin(self, name: str | None) -> None:
        if not name or not name.strip():
            return
        place = Path(name.strip())
        try:
            # RuntimeError: the user in ~user does not exist.
            place = place.expanduser()
            export = Export(self.reading.path, list(self.rows_shown()), place)
        except FileExistsError:
            notify(self.app, f"{place.name} already exists; choose another name", bad=True)
        except (OSError, CaptureError, ValueError, RuntimeError) as error:
            notify(self.app, f"cannot write {place}: {getattr(error, 'strerror', None) or error}", bad=True)
        else:
            step_thread = StepThread(export.step, self._report_export, self._report_failed_export, "export")
            self._export = export, step_thread

    def _report_export(self) -> None:
        self.post_message(Exported())

    def _report_failed_export(self, reason: str) -> None:
        self.post_message(Exported(reason))

    @on(Exported)
    def _exported(self, event: Exported) -> None:
        if self._export is None:
            return
        export, step_thread = self._export
        if event.problem or export.has_ended:
            self._export = None
            step_thread.stop()
            export.abandon()
            summary = f"exported {count_text(export.written, 'row')} to {sanitise(str(export.place))}"
            problem = event.problem and f"cannot write {export.place}: {event.problem}"
            notify(self.app, problem or summary, bad=bool(problem))
        self.show_marks()
