"""Entries of one skill, compared with each other over time."""

from collections.abc import Iterator

from analysis.conversation.call import MessageContext
from analysis.rules.base import NOTE
from analysis.rules.ext_skills.entries import EntryRule
from analysis.rules.finding import Finding
from analysis.rules.support.skill_uris import common_form
from analysis.rules.support.skills import RawEntry, Skill, SkillFile, is_same_json, skills_of


class _HistoryRule(EntryRule):
    """The base class of the rules about an entry and the previous entry of the same skill."""

    needs_session = True

    def check_entries(self, context: MessageContext, entries: list[RawEntry]) -> Iterator[Finding]:
        book = skills_of(context.session)
        previous = book.record(context)
        checked: set[str] = set()
        for entry in entries:
            uri = common_form(entry.uri) if entry.uri is not None else ""
            earlier_skill = previous.get(uri)
            if earlier_skill is not None and uri not in checked:
                checked.add(uri)
                yield from self.compare(context, entry, earlier_skill, book.skills[uri])

    def compare(
        self, context: MessageContext, entry: RawEntry, earlier_skill: Skill, skill: Skill
    ) -> Iterator[Finding]:
        """Compare an entry with the previous one."""
        raise NotImplementedError


class InconsistentEntry(_HistoryRule):
    """Two entries give the same digest to a skill's `SKILL.md`, but different frontmatter or sizes.

    **Why it matters.** The frontmatter is part of the file, so one of the entries is wrong. Hosts that compare it with
    the file refuse the skill.

    **On the wire.** `skills/list` and `skills/get` with the same digest of `skill://refunds/SKILL.md`, and with two
    descriptions

    **Instead.** Take the frontmatter of both results from the file itself, without changes.
    """

    id = "ext-skills/inconsistent-entry"

    def compare(
        self, context: MessageContext, entry: RawEntry, earlier_skill: Skill, skill: Skill
    ) -> Iterator[Finding]:
        own_file, earlier_file = _own_file(skill), _own_file(earlier_skill)
        if own_file is None or earlier_file is None or own_file.digest != earlier_file.digest or not own_file.digest:
            return
        related = (earlier_skill.seq,)
        has_both = skill.frontmatter is not None and earlier_skill.frontmatter is not None
        if has_both and not is_same_json(skill.frontmatter, earlier_skill.frontmatter):
            text = "the frontmatter differs from that of an earlier entry with the same digest"
            yield self.finding(context, text, pointer=f"{entry.pointer}/frontmatter", related=related)
        if None not in (own_file.size, earlier_file.size) and own_file.size != earlier_file.size:
            text = "the size of SKILL.md differs from that in an earlier entry with the same digest"
            yield self.finding(context, text, pointer=f"{entry.pointer}/resources", related=related)


class EntryChanged(_HistoryRule):
    """The files of a skill have changed since its previous entry.

    **Why it matters.** It is legal, but it revokes a stored approval: hosts must ask their users again.

    **On the wire.** `skills/get` with another digest of `skill://refunds/SKILL.md` than `skills/list` had

    **Instead.** Change the files of a skill rarely, and all at once.
    """

    id = "ext-skills/entry-changed"
    level = NOTE

    def compare(
        self, context: MessageContext, entry: RawEntry, earlier_skill: Skill, skill: Skill
    ) -> Iterator[Finding]:
        if skill.files is None or earlier_skill.files is None:
            return
        digests, earlier_digests = _digests(skill), _digests(earlier_skill)
        if digests == earlier_digests:
            return
        added, removed = len(digests.keys() - earlier_digests.keys()), len(earlier_digests.keys() - digests.keys())
        changed = sum(1 for uri in digests.keys() & earlier_digests.keys() if digests[uri] != earlier_digests[uri])
        counts = ((changed, "changed"), (added, "added"), (removed, "removed"))
        text = "files since the previous entry: " + ", ".join(f"{count} {word}" for count, word in counts if count)
        yield self.finding(context, text, pointer=f"{entry.pointer}/resources", related=(earlier_skill.seq,))


# ---- shared by the rules


def _own_file(skill: Skill) -> SkillFile | None:
    """Returns the `SKILL.md` of a skill as its entry lists it."""
    return None if skill.files is None else skill.files.get(f"{skill.root}/SKILL.md")


def _digests(skill: Skill) -> dict[str, str]:
    return {uri: file.digest for uri, file in (skill.files or {}).items()}
