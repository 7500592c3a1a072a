"""The files that entries list: whether the list is complete, and what it says about each file."""

from collections.abc import Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.rules.base import WARNING
from analysis.rules.ext_skills.entries import EntryRule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import shortened
from analysis.rules.support.skill_uris import common_form, parent_directories
from analysis.rules.support.skills import MAX_LISTED_FILES, RawEntry, digest_in, size_in

MAX_FILES_PER_SKILL: Final = 512
"""The most files of a skill that every host accepts."""
MAX_BYTES_PER_SKILL: Final = 16 << 20
"""The most bytes of a skill's files that every host accepts."""


class FileUnlisted(EntryRule):
    """The files of an entry lack its own `SKILL.md`, or that of a skill in a subdirectory.

    **Why it matters.** The list must be complete, because hosts verify what they read against it, and refuse files that
    it lacks.

    **On the wire.** `< …{"uri":"skill://refunds/SKILL.md",…,"resources":[{"uri":"skill://refunds/email.md",…}]}`

    **Instead.** List each file below the directory of the skill, its `SKILL.md` first. The files of a skill in a
    subdirectory belong to both.
    """

    id = "ext-skills/file-unlisted"

    def check_entries(self, context: MessageContext, entries: list[RawEntry]) -> Iterator[Finding]:
        listed_files: dict[str, tuple[RawEntry, set[str]]] = {}
        for entry in entries:
            resources = entry.body.get("resources")
            if entry.uri is None or entry.root is None or not isinstance(resources, list):
                continue
            if len(resources) > MAX_LISTED_FILES:
                continue
            files = {common_form(uri) for uri, _, _ in entry.files()}
            listed_files.setdefault(entry.root, (entry, files))
            if common_form(entry.uri) not in files:
                text = "resources does not list the SKILL.md of the entry"
                yield self.finding(context, text, pointer=f"{entry.pointer}/resources")
        for inner in entries:
            if inner.uri is None or inner.root is None:
                continue
            form = common_form(inner.uri)
            for directory in parent_directories(inner.root):
                outer, files = listed_files.get(directory, (inner, {form}))
                if form not in files:
                    text = f"resources does not list {shortened(inner.uri)}, which is below the directory of the skill"
                    yield self.finding(context, text, pointer=f"{outer.pointer}/resources")


class DuplicateFile(EntryRule):
    """An entry lists a file twice.

    **Why it matters.** If digest or size differ, no content fits both, and hosts refuse the file. If not, some count it
    twice.

    **On the wire.** `< …"resources":[{"uri":"skill://refunds/SKILL.md",…},{"uri":"skill://refunds/SKILL.md",…}]`

    **Instead.** List each file once.
    """

    id = "ext-skills/duplicate-file"

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for uri, _, pointer in entry.files():
            form = common_form(uri)
            if form in seen:
                yield f"{pointer}/uri", "an earlier file of the entry has the same uri"
            seen.add(form)


class ForeignFile(EntryRule):
    """An entry lists a file that is not in the directory of the skill.

    **Why it matters.** Approving a skill approves its files, so a list must not reach beyond its directory.

    **On the wire.** `< …{"uri":"skill://refunds/SKILL.md",…,"resources":[…,{"uri":"skill://shared/email.md",…}]}`

    **Instead.** Put a copy of the file into the directory of each skill that needs it.
    """

    id = "ext-skills/foreign-file"
    impact = Impact.SECURITY

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        if entry.root is None:
            return
        for uri, _, pointer in entry.files():
            if not common_form(uri).startswith(f"{entry.root}/"):
                yield f"{pointer}/uri", "a file is not in the directory of the skill"


class InvalidDigest(EntryRule):
    """The digest of a file does not have the form `sha256:` and 64 lower-case hexadecimal digits.

    **Why it matters.** Hosts verify each file against its digest, so they refuse this one.

    **On the wire.** `< …{"uri":"skill://refunds/SKILL.md","digest":"9F86D081…","size":3871}`

    **Instead.** `"digest":"sha256:9f86d081…"`: SHA-256 over the bytes of the file.
    """

    id = "ext-skills/invalid-digest"

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        for _, listed, pointer in entry.files():
            if isinstance(listed.get("digest"), str) and not digest_in(listed):
                yield f"{pointer}/digest", f"a digest {_digest_fault(listed['digest'])}"


class ConflictingFiles(EntryRule):
    """One result describes the same file in two ways, or gives the same digest two sizes.

    **Why it matters.** No content fits both, so hosts refuse the file whichever skill it belongs to.

    **On the wire.** `skill://billing/refunds/SKILL.md` with one digest in the entry of `skill://billing/SKILL.md`, and
    with another in its own

    **Instead.** Compute digest and size of each file once for the whole result.
    """

    id = "ext-skills/conflicting-files"

    def check_entries(self, context: MessageContext, entries: list[RawEntry]) -> Iterator[Finding]:
        digests: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for entry in entries:
            own_files: set[str] = set()
            for uri, listed, pointer in entry.files():
                form, digest, size = common_form(uri), digest_in(listed), size_in(listed)
                if form in own_files or not digest:
                    continue  # another rule reports a file that is listed twice, and an invalid digest
                own_files.add(form)
                if digests.setdefault(form, digest) != digest:
                    text = "another entry gives this file another digest"
                    yield self.finding(context, text, pointer=f"{pointer}/digest")
                elif size is not None and sizes.setdefault(digest, size) != size:
                    text = "a file with the same digest has another size"
                    yield self.finding(context, text, pointer=f"{pointer}/size")


class TooLarge(EntryRule):
    """A skill has more than 512 files, or more than 16 MiB.

    **Why it matters.** Hosts need not load it.

    **On the wire.** `< …"resources":[…,{"uri":"skill://refunds/video.mp4","digest":"…","size":50331648}]`

    **Instead.** Divide the skill, or leave large files out of its directory.
    """

    id = "ext-skills/too-large"
    level = WARNING
    impact = Impact.HINT

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        resources = entry.body.get("resources")
        if not isinstance(resources, list):
            return
        if len(resources) > MAX_FILES_PER_SKILL:
            text = f"the skill has {len(resources)} files, more than {MAX_FILES_PER_SKILL}"
            yield f"{entry.pointer}/resources", text
        size = sum(size_in(listed) or 0 for _, listed, _ in entry.files())
        if size > MAX_BYTES_PER_SKILL:
            text = f"the files of the skill have {size} bytes, more than {MAX_BYTES_PER_SKILL}"
            yield f"{entry.pointer}/resources", text


# ---- shared by the rules


def _digest_fault(digest: str) -> str:
    algorithm, colon, _ = digest.partition(":")
    if not colon:
        return "does not begin with sha256:"
    if algorithm != "sha256":
        return "is not a SHA-256, or does not say so in lower case"
    return "has upper-case digits" if digest_in({"digest": digest.lower()}) else "does not have 64 hexadecimal digits"
