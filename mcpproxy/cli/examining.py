"""Reports on stderr what cannot be checked in a capture, in the same words for every command that examines one."""

from pathlib import Path

from captures.reader import Damage
from mcpproxy.cli.diagnostics import say
from mcpproxy.examination.examine import Examination
from mcpproxy.examination.result import STDIN, Ended
from mcpproxy.sanitise import sanitise


def say_damage(damage: Damage, name: Path) -> None:
    """Report that bytes of a capture are not a record, only for the first such bytes."""
    named = damage._replace(path=STDIN) if name == STDIN else damage
    say(f"{sanitise(str(named))}; `mcpproxy verify` lists the damage, `mcpproxy repair` copies what is whole")


def say_ended(examination: Examination, ended: Ended) -> bool:
    """Report what is missing in a capture and which rules failed; returns whether all of it could be checked."""
    name = sanitise(str(ended.capture))
    if examination.missing:
        count = f"{examination.missing:,} record{'s are' if examination.missing > 1 else ' is'} missing"
        say(f"{name}: {count}; `mcpproxy verify` tells which")
    for forgotten in ended.forgotten:
        say(f"{name}: {forgotten.text}")
    for rule, fault in ended.faults.items():
        say(f"the rule {rule} itself failed on {name}, please report it: {sanitise(fault)}")
    return not ended.damaged and not ended.faults
