"""Actions on the row at the cursor: showing the pages of its rules, copying it, saving its attachments."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from captures.paths import safe_name
from mcpproxy.tui.copies.clipboard import copy
from mcpproxy.tui.copies.copy_forms import CopyForm, forms
from mcpproxy.tui.copies.saving import SaveResult, save
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.finding_lines import findings_in
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.file_prompt import FileOffer, FilePrompt, NewFile
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.text.content import Attachment
from mcpproxy.tui.text.rows import row_text

WIDTH: Final = 80
"""The width of lines, in cells, when a text is laid out only to find its attachments."""


class RowActions:
    """What a screen with rows of a capture can do with one of them. A thread reads the row from the file."""

    def __init__(self, screen: TitledScreen, reading: Reading, entry: Callable[[], int | None]) -> None:
        """Create the actions; no row is read yet.

        Args:
            screen: the screen over which prompts appear.
            reading: the capture.
            entry: returns the entry at the cursor.
        """
        self._screen, self._reading, self._entry = screen, reading, entry
        self._thread = ThreadPoolExecutor(1, "files")

    def close(self) -> None:
        """Cancel work that has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def run_on_row(self, work: Callable[[int], None]) -> None:
        """Call `work` with the entry at the cursor, in the thread that reads the file; keys wait for it."""
        entry = self._entry()
        if entry is None:
            notify(self._screen.app, "nothing is selected")
        else:
            self._screen.app.key_queue.wait_for(self._thread.submit(work, entry))

    # ---- rules

    def show_rules(self) -> None:
        """Show the pages of the rules with findings in the row, the worst first."""
        entry, reading = self._entry(), self._reading
        rows = reading.logins.rows_in(entry) if entry is not None else []
        kept_findings = sorted(
            findings_in(reading, entry) if entry is not None else [], key=lambda finding: -finding.level
        )
        other_rules = [rule for row in rows for rule in reading.findings.rules_at(row)]
        rules = dict.fromkeys([*(finding.rule for finding in kept_findings), *other_rules])
        if rules:
            self._screen.app.push_screen(RuleScreen(reading.findings, *rules))
        else:
            notify(self._screen.app, "this row has no findings")

    # ---- copying

    def copy(self) -> None:
        """Copy the row, in a chosen form."""

        def list_forms(entry: int) -> None:
            try:
                choices = forms(self._reading, entry)
            except OSError as error:
                choices = [CopyForm("", "", "", error.strerror or str(error))]
            self._screen.call_later(self._choose, choices)

        self.run_on_row(list_forms)

    def _choose(self, choices: Sequence[CopyForm]) -> None:
        if not any(form.text for form in choices):
            notify(self._screen.app, choices[0].remark if choices else "there is nothing to copy", bad=True)
            return
        self._screen.app.push_screen(ChoiceScreen("copy as", choices, to_file=True), self._copy)

    def _copy(self, form: CopyForm | None) -> None:
        if form is not None:
            copy(self._screen.app, form)

    # ---- saving images, sounds and blobs

    def save(self) -> None:
        """Save an image, a sound or a blob of the row to a new file."""

        def find_attachments(entry: int) -> None:
            try:
                text = row_text(self._reading, entry, WIDTH)
            except OSError:
                text = None
            seq = self._reading.index.entry(entry).seq
            attachments = text.attachments if text is not None else ()
            self._screen.call_later(self._choose_attachment, seq, attachments)

        self.run_on_row(find_attachments)

    def _choose_attachment(self, seq: int, attachments: Sequence[Attachment]) -> None:
        if len(attachments) <= 1:
            for attachment in attachments:
                self._save_to(seq, "", attachment)
            if not attachments:
                notify(self._screen.app, "this row has no image, sound or blob")
            return
        # Each attachment is chosen by a digit.
        choices = [CopyForm(str(n), attachment.summary, str(n)) for n, attachment in enumerate(attachments[:9], 1)]

        def save_choice(form: CopyForm | None) -> None:
            if form is not None:
                self._save_to(seq, f"-{form.key}", attachments[int(form.key) - 1])

        self._screen.app.push_screen(ChoiceScreen("save", choices), save_choice)

    def _save_to(self, seq: int, suffix: str, attachment: Attachment) -> None:
        """Prompt for a file and save an attachment to it."""

        def save_as(file: NewFile | None) -> None:
            if file is not None:
                self._thread.submit(
                    lambda: self._screen.call_later(self._report_result, save(attachment, str(file.path)))
                )

        default_name = f"{safe_name(self._reading.name)}-{seq}{suffix}.{attachment.extension}"
        offer = FileOffer(f"save {attachment.summary} to", default_name)
        self._screen.app.push_screen(FilePrompt([offer]), save_as)

    def _report_result(self, outcome: SaveResult) -> None:
        notify(self._screen.app, outcome.message, bad=outcome.is_bad)
