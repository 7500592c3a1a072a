"""Reports on stderr whatever in a capture could not be checked, in the same words for every command."""

from pathlib import Path

from captures.damage import Damage
from mcpproxy.check_run.result import STDIN, CheckOutcome
from mcpproxy.cli.diagnostics import say
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text, count_text, guesses_text, unrecorded_text


def say_damage(damage: Damage, name: Path) -> None:
    """Report damage in a capture. Call it for the first damage only."""
    named_damage = damage._replace(path=STDIN) if name == STDIN else damage
    say(
        f"{sanitise(str(named_damage))}; `mcpproxy verify` lists the damage, `mcpproxy repair` copies everything intact"
    )


def say_outcome(outcome: CheckOutcome) -> bool:
    """Report what a capture lacks and which rules failed; returns whether the whole capture could be checked."""
    name = sanitise(str(outcome.capture))
    if outcome.begins_at:
        say(f"{name} {begins_text(outcome.begins_at)}")
    if outcome.unrecorded:
        say(f"{name}: {unrecorded_text(outcome.unrecorded)}; rules are silent where these could matter")
    if outcome.guesses:
        say(f"{name}: {guesses_text(outcome.guesses)}; rules about the course of a session are silent there")
    if outcome.undecided_logins:
        verb = "is" if outcome.undecided_logins == 1 else "are"
        say(f"{name}: {count_text(outcome.undecided_logins, 'login')} {verb} still under way")
    if outcome.missing:
        count = f"{outcome.missing:,} record{'s are' if outcome.missing > 1 else ' is'} missing"
        say(f"{name}: {count}; `mcpproxy verify` says which")
    for loss in outcome.forgotten:
        say(f"{name}: {loss.text}")
    say_faults(outcome)
    return not outcome.is_damaged and not outcome.faults


def say_faults(outcome: CheckOutcome) -> None:
    """Report the rules that failed on a capture."""
    for rule, fault in outcome.faults.items():
        name = sanitise(str(outcome.capture))
        say(f"the rule {rule} crashed on {name}; please report this bug: {sanitise(fault)}")
