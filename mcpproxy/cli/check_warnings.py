"""Reports on stderr anything in a capture that cannot be checked, in the same words for every command."""

from pathlib import Path

from captures.damage import Damage
from mcpproxy.check_run.result import STDIN, CheckOutcome
from mcpproxy.cli.diagnostics import say
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text, guesses_text, unrecorded_text


def say_damage(damage: Damage, name: Path) -> None:
    """Report damage in a capture. Call it for the first damage only."""
    named = damage._replace(path=STDIN) if name == STDIN else damage
    say(f"{sanitise(str(named))}; `mcpproxy verify` lists the damage, `mcpproxy repair` copies everything intact")


def say_ended(ended: CheckOutcome) -> bool:
    """Report what a capture lacks and which rules failed; returns whether the whole capture could be checked."""
    name = sanitise(str(ended.capture))
    if ended.begins_at:
        say(f"{name} {begins_text(ended.begins_at)}")
    if ended.unrecorded:
        say(f"{name}: {unrecorded_text(ended.unrecorded)}; rules are silent where these could matter")
    if ended.guesses:
        say(f"{name}: {guesses_text(ended.guesses)}; rules about the course of a session are silent there")
    if ended.missing:
        count = f"{ended.missing:,} record{'s are' if ended.missing > 1 else ' is'} missing"
        say(f"{name}: {count}; `mcpproxy verify` says which")
    for forgotten in ended.forgotten:
        say(f"{name}: {forgotten.text}")
    say_faults(ended)
    return not ended.damaged and not ended.faults


def say_faults(ended: CheckOutcome) -> None:
    """Report the rules that failed on a capture."""
    for rule, fault in ended.faults.items():
        name = sanitise(str(ended.capture))
        say(f"the rule {rule} crashed on {name}; please report this bug: {sanitise(fault)}")
