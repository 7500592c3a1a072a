"""The table of commands, and the dispatch to them. Only the chosen module is imported, because clients wait for `run`.

Each command is a module of this package with a function `run(arguments) -> exit code`. All except `run` also have a
`parser()`, from which help, completion scripts and the tests of the documentation are generated.
"""

import gc
import sys

COMMANDS = {
    "install": "route the servers of your MCP clients through mcpproxy",
    "uninstall": "remove mcpproxy from your clients' configuration",
    "up": "record the HTTP servers that install routed",
    "doctor": "find out why a server does not work in a client",
    "status": "show which servers are routed, and when each last exchanged a frame",
    "run": "run a stdio server, record everything, change nothing",
    "serve": "run a proxy for an HTTP server, and record everything",
    "ls": "list captures",
    "info": "summarise a capture: header, counts, duration, state",
    "show": "print the conversation of a capture",
    "tui": "show sessions in the terminal, live and recorded",
    "check": "report violations of the protocol's rules",
    "rule": "list the rules, or explain a rule",
    "compare": "report what changed between two captures, and what it breaks",
    "mock": "serve a capture as a server, with the recorded answers",
    "replay": "send a capture's requests to a server again, and compare",
    "stats": "summarise latency, errors, ids, lifecycle and costs",
    "report": "write a self-contained HTML report of captures",
    "share": "write a copy of a capture without its secrets",
    "scan": "list likely secrets in captures",
    "export": "write captures as tables, OTLP, HAR, Perfetto or Markdown",
    "ship": "copy closed captures to a directory or object store, as Parquet",
    "query": "query captures in SQL",
    "cache": "clear the cache of the SQL commands, tui and mock",
    "verify": "prove that a capture is complete, or report what is missing",
    "repair": "copy everything that is intact in a damaged capture",
    "prune": "delete old captures",
    "import": "convert logs and traces from other tools into captures",
    "demo": "record a bundled server and show its conversation",
    "completion": "print a completion script for bash, zsh or fish",
}


_COMMANDS_WITH_OWN_GC = ("serve", "up", "tui")
"""The commands that relay traffic or draw screens; they decide themselves when to collect reference cycles."""

_COMMANDS_WITH_VERDICT = ("doctor", "check", "compare", "replay", "scan", "verify")
"""The commands whose exit code says something about their input, also if nothing reads their output."""


def usage() -> str:
    """Return the text of `mcpproxy --help`."""
    rows = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
    return f"""usage: mcpproxy COMMAND [ARGUMENT ...]

Flight recorder for the Model Context Protocol: runs invisibly between client and server, and records every byte.

{rows}

`mcpproxy install` routes the servers of your MCP clients through mcpproxy; `mcpproxy tui` shows what they say.
`mcpproxy help COMMAND` explains a command; `mcpproxy --version` prints the version.
"""


def dispatch(arguments: list[str]) -> int:
    """Run a command; returns the exit code of the program."""
    name = arguments[0] if arguments else ""
    if name == "run":
        _end_on_ctrl_c()
        # Imports create no garbage, and looking for it would add 3 ms to every start.
        gc.disable()
        from mcpproxy.cli import run

        gc.freeze()
        gc.enable()
        return run.run(arguments[1:])
    if name == "help" and len(arguments) == 2 and arguments[1] in COMMANDS:
        return dispatch([arguments[1], "--help"])
    from importlib import import_module

    from analysis.garbage import make_collections_rare
    from mcpproxy.cli.diagnostics import run_guarded

    if name == "serve":
        _end_on_ctrl_c()
    if name in COMMANDS:
        if name not in _COMMANDS_WITH_OWN_GC:
            make_collections_rare()
        # Importing the module takes a tenth of a second, during which Ctrl-C must not print a traceback either.
        return run_guarded(
            lambda operands: int(import_module(module_of(name)).run(operands)),
            arguments[1:],
            name,
            has_verdict=name in _COMMANDS_WITH_VERDICT,
        )
    return run_guarded(_handle_non_command, arguments, "mcpproxy")


def module_of(name: str) -> str:
    """Return the name of a command's module; `import` is a keyword of Python, so its module is `import_`."""
    return f"mcpproxy.cli.{name}_" if name == "import" else f"mcpproxy.cli.{name}"


def _end_on_ctrl_c() -> None:
    """Make Ctrl-C end a recorder during its start as it would end the server: without a traceback.

    This uses the builtin module: importing `signal` takes 3 ms, during which Ctrl-C would still print a traceback.
    """
    import _signal as signal  # type: ignore[import-not-found] # it has no stubs

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _handle_non_command(arguments: list[str]) -> int:
    """Answer `--help`, `help` and `--version`; report an unknown command."""
    from mcpproxy.cli.diagnostics import fail
    from mcpproxy.sanitise import sanitise

    name = arguments[0] if arguments else ""
    if name == "help" and len(arguments) > 1:
        if len(arguments) > 2:
            return fail(f"help explains one command at a time: mcpproxy help {sanitise(arguments[1], 64)}")
        name = arguments[1]
    if not arguments or name in ("--help", "-h", "help"):
        sys.stdout.write(usage())
        return 0 if arguments else 2
    if name == "--version":
        from mcpproxy import __version__

        sys.stdout.write(f"mcpproxy {__version__}\n")
        return 0
    from mcpproxy.cli.other_words import ADVICE_FOR_WORD
    from mcpproxy.wording.nearest import hint

    if name in ADVICE_FOR_WORD:
        return fail(f"there is no command {name}; {ADVICE_FOR_WORD[name]}")
    return fail(f"there is no command {sanitise(name, 64)}{hint(name, COMMANDS)}; mcpproxy --help lists them")
