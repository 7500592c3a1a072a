"""Print a completion script for bash, zsh or fish: commands, options, captures and servers by name, rules and views.

  bash   mcpproxy completion bash > ~/.local/share/bash-completion/completions/mcpproxy
  zsh    mcpproxy completion zsh > DIR/_mcpproxy      where DIR is in your fpath
  fish   mcpproxy completion fish > ~/.config/fish/completions/mcpproxy.fish

The script is made from the commands of this version and starts no program of its own while you type.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable

from analysis.store.reference import relation_names
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit
from mcpproxy.cli.grammar import Grammar, Option, grammars, rule_patterns


def parser() -> argparse.ArgumentParser:
    """The arguments of `completion`."""
    parser = Parser("completion", __doc__)
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="the shell that will read the script")
    return parser


def run(arguments: list[str]) -> int:
    """Print the script."""
    shell = parser().parse_args(arguments).shell
    sys.stdout.write(SCRIPTS[shell](grammars()))
    return int(Exit.FINE)


# ---- bash: also the 3.2 of macOS, so neither associative arrays nor mapfile

_BASH = r"""# Completion of mcpproxy for bash, as `mcpproxy completion bash` made it.

_mcpproxy_words() {
    local word
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "${@:2}" -- "$1")
}

_mcpproxy_folders() {
    compopt -o filenames 2>/dev/null
    _mcpproxy_words "$1" -d
}

_mcpproxy_paths() {
    _mcpproxy_folders "$1"
    _mcpproxy_words "$1" -f -X '!*.mcpcap'
}

# A server has a folder of its own in every place where a recorder may have written.
_mcpproxy_names() {
    local root folder
    for root in "${MCPPROXY_CAPTURES-}" "${XDG_DATA_HOME:+$XDG_DATA_HOME/mcpproxy/captures}" \
        "${HOME-}/.local/share/mcpproxy/captures" "${HOME-}/Library/Application Support/mcpproxy/captures"; do
        for folder in "${root:-/dev/null}"/*/; do
            [[ -d $folder ]] || continue
            folder=${folder%/}
            folder=${folder##*/}
            [[ $folder == "$1"* ]] && COMPREPLY+=("$folder")
        done
    done
}

_mcpproxy_servers() {
    _mcpproxy_names "$1"
}

_mcpproxy_captures() {
    _mcpproxy_paths "$1"
    _mcpproxy_names "$1"
}

_mcpproxy_rules() {
    _mcpproxy_words "$1" -W @RULES@
}

_mcpproxy_views() {
    _mcpproxy_words "$1" -W @VIEWS@
}

_mcpproxy_files() {
    compopt -o filenames 2>/dev/null
    _mcpproxy_words "$1" -f
}

_mcpproxy_server() {
    if ((COMP_CWORD == $2)); then
        _mcpproxy_words "$1" -c
    elif declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$2"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$2"
    else
        _mcpproxy_files "$1"
    fi
}

_mcpproxy() {
    local current=$2 before=$3 command=${COMP_WORDS[1]} dashes=0 place
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _mcpproxy_words "$current" -W @COMMANDS@
        return
    fi
    # In --time=rel the = is a word of its own.
    [[ $current == = ]] && current=
    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
    for ((place = 2; place < COMP_CWORD; place++)); do
        [[ ${COMP_WORDS[place]} == -- ]] && dashes=$((place + 1)) && break
    done
    if ((dashes == 0)); then
        case "$command $before" in
@VALUES@
        esac
        if [[ $current == -* ]]; then
            case $command in
@OPTIONS@
            esac
            return
        fi
    fi
    case $command in
@OPERANDS@
    esac
}

complete -F _mcpproxy mcpproxy
"""

_BASH_OPERANDS = {
    "captures": '_mcpproxy_captures "$current"',
    "files": '_mcpproxy_files "$current"',
    "server": 'if ((dashes)); then _mcpproxy_server "$current" "$dashes"; else _mcpproxy_words "$current" -W --; fi',
}


def bash(commands: list[Grammar]) -> str:
    """The script for bash."""
    values, options, operands = [], [], []
    for command in commands:
        values += [row for option in command.options if (row := _bash_value(command, option))]
        names = [name for option in command.options for name in option.names]
        dashes = ["--"] if command.operands == "server" else []
        options.append(f"{command.name}) {_bash_words([*names, *dashes])} ;;")
        filled = _bash_words(command.words) if command.words else _BASH_OPERANDS.get(command.operands)
        operands += [f"{command.name}) {filled} ;;"] if filled else []
    return _filled(
        _BASH,
        COMMANDS=[shlex.quote(" ".join([*(command.name for command in commands), "--help", "--version"]))],
        VALUES=_indented(values, 12),
        OPTIONS=_indented(options, 16),
        OPERANDS=_indented(operands, 8),
        RULES=[shlex.quote(" ".join(rule_patterns()))],
        VIEWS=[shlex.quote(" ".join(relation_names()))],
    )


def _bash_value(command: Grammar, option: Option) -> str | None:
    if option.values == "none":
        return None
    does = {
        "words": _bash_words(option.words),
        "text": ":",
    }.get(option.values, f'_mcpproxy_{option.values} "$current"')
    names = " | ".join(f"'{command.name} {name}'" for name in option.names)
    return f"{names}) {does}; return ;;"


def _bash_words(words: Iterable[str]) -> str:
    return f'_mcpproxy_words "$current" -W {shlex.quote(" ".join(words))}'


# ---- zsh: for a file in the fpath as well as for `source <(…)`

_ZSH = r"""#compdef mcpproxy
# Completion of mcpproxy for zsh, as `mcpproxy completion zsh` made it.

_mcpproxy_paths() { _files "$@" -g '*.mcpcap' }

# A server has a folder of its own in every place where a recorder may have written.
_mcpproxy_names() {
    local -a roots names
    roots=(
        $MCPPROXY_CAPTURES ${XDG_DATA_HOME:+$XDG_DATA_HOME/mcpproxy/captures}
        "$HOME/.local/share/mcpproxy/captures" "$HOME/Library/Application Support/mcpproxy/captures"
    )
    names=(${^roots}/*(N/:t))
    compadd "$@" -a names
}

_mcpproxy_captures() { _alternative 'servers:server:_mcpproxy_names' 'files:capture:_mcpproxy_paths' }

_mcpproxy_rules() {
    local -a ids=(@RULES@)
    compadd "$@" -a ids
}

_mcpproxy_views() {
    local -a views=(@VIEWS@)
    compadd "$@" -a views
}

_mcpproxy() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    # Not `commands`: zsh keeps its own there.
    local -a subcommands=(
@COMMANDS@
    )
    _arguments -C '(- *)'{-h,--help}'[list the commands]' '(- *)--version[name this version]' \
        '1:command:->command' '*::argument:->argument' && ret=0
    case $state in
    command)
        _describe -t commands command subcommands && ret=0
        ;;
    argument)
        curcontext=${curcontext%:*:*}:mcpproxy-$words[1]:
        case $words[1] in
@ARGUMENTS@
        esac
        ;;
    esac
    return ret
}

if [[ $funcstack[1] == _mcpproxy ]]; then
    _mcpproxy "$@"
else
    compdef _mcpproxy mcpproxy
fi
"""

_ZSH_OPERANDS = {
    "captures": "*:capture:_mcpproxy_captures",
    "files": "1:file:_files",
    "server": "*:::server command: _normal",
}


def zsh(commands: list[Grammar]) -> str:
    """The script for zsh."""
    arms = []
    for command in commands:
        specs = [_zsh_option(option) for option in command.options]
        operands = f"1:argument:({' '.join(command.words)})" if command.words else _ZSH_OPERANDS.get(command.operands)
        specs += [shlex.quote(operands)] if operands else []
        arms.append(f"{command.name})\n    _arguments -s -S " + " \\\n        ".join(specs) + " && ret=0\n    ;;")
    described = [shlex.quote(f"{command.name}:{command.summary}") for command in commands]
    return _filled(
        _ZSH,
        COMMANDS=_indented(described, 8),
        ARGUMENTS=_indented("\n".join(arms).splitlines(), 8),
        RULES=[shlex.join(rule_patterns())],
        VIEWS=[shlex.join(relation_names())],
    )


def _zsh_option(option: Option) -> str:
    takes = option.values != "none"
    names = [name + ("" if not takes else "=" if name.startswith("--") else "+") for name in option.names]
    action = {
        "words": f"({' '.join(option.words)})",
        "folders": "_files -/",
        "files": "_files",
        "servers": "_mcpproxy_names",
        "text": " ",
    }
    value = (
        f":{_zsh_text(option.metavar or 'value')}:{action.get(option.values, f'_mcpproxy_{option.values}')}"
        if takes
        else ""
    )
    text = shlex.quote(f"[{_zsh_text(option.help)}]{value}")
    if "--help" in option.names:
        return f"'(- *)'{{{','.join(names)}}}{text}"
    return names[0] + text if len(names) == 1 else f"'({' '.join(option.names)})'{{{','.join(names)}}}{text}"


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


# ---- fish

_FISH = r"""# Completion of mcpproxy for fish, as `mcpproxy completion fish` made it.

function __mcpproxy_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv; and not contains -- -- $words
end

function __mcpproxy_no_command
    test (count (commandline -opc)) -eq 1
end

function __mcpproxy_after_dashes
    set -l words (commandline -opc)
    contains -- -- $words; and contains -- $words[2] $argv
end

function __mcpproxy_paths
    set -l typed (commandline -ct)
    complete -C "'' $typed" | string match -e -r -- $argv[1]
end

# A server has a folder of its own in every place where a recorder may have written.
function __mcpproxy_names
    for root in $MCPPROXY_CAPTURES $XDG_DATA_HOME/mcpproxy/captures $HOME/.local/share/mcpproxy/captures \
            "$HOME/Library/Application Support/mcpproxy/captures"
        for folder in $root/*/
            string replace -r '^.*/([^/]+)/$' '$1' -- $folder
        end
    end
end

function __mcpproxy_rules
    string join \n @RULES@
end

function __mcpproxy_views
    string join \n @VIEWS@
end

function __mcpproxy_server
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words)
    set -l server (string escape -- $words) (commandline -ct | string collect -a)
    complete -C (string join -- ' ' $server[(math $dashes + 1)..])
end

complete -c mcpproxy -f
complete -c mcpproxy -n __mcpproxy_no_command -s h -l help -d 'list the commands'
complete -c mcpproxy -n __mcpproxy_no_command -l version -d 'name this version'
@COMMANDS@
"""

_FISH_PATHS = r"__mcpproxy_paths \'(?:/|\.mcpcap)(?:\t.*)?$\'"
_FISH_CAPTURES = f"'(__mcpproxy_names; {_FISH_PATHS})'"
_FISH_FOLDERS = r"'(__mcpproxy_paths \'/(?:\t.*)?$\')'"


def fish(commands: list[Grammar]) -> str:
    """The script for fish."""
    lines = []
    for command in commands:
        lines.append(
            f"complete -c mcpproxy -n __mcpproxy_no_command -a {command.name} -d {_fish_text(command.summary)}"
        )
        here = f"complete -c mcpproxy -n '__mcpproxy_command {command.name}'"
        lines += [f"{here} {_fish_option(option)}" for option in command.options]
        if command.words:
            lines.append(f"{here} -a '{' '.join(command.words)}'")
        elif command.operands == "captures":
            lines.append(f"{here} -a {_FISH_CAPTURES}")
        elif command.operands == "files":
            lines.append(f"{here} -F")
        elif command.operands == "server":
            lines.append(f"{here} -a '--' -d {_fish_text('what follows is the server')}")
            lines.append(f"complete -c mcpproxy -n '__mcpproxy_after_dashes {command.name}' -a '(__mcpproxy_server)'")
    return _filled(_FISH, COMMANDS=lines, RULES=[shlex.join(rule_patterns())], VIEWS=[shlex.join(relation_names())])


def _fish_option(option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = {
        "none": "",
        "words": f" -x -a '{' '.join(option.words)}'",
        "captures": f" -x -a {_FISH_CAPTURES}",
        "servers": " -x -a '(__mcpproxy_names)'",
        "paths": f" -x -a '({_FISH_PATHS})'",
        "rules": " -x -a '(__mcpproxy_rules)'",
        "views": " -x -a '(__mcpproxy_views)'",
        "folders": f" -x -a {_FISH_FOLDERS}",
        "files": " -r -F",
        "text": " -x",
    }[option.values]
    return f"{' '.join(names)}{value} -d {_fish_text(option.help)}"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# ---- all


def _indented(lines: Iterable[str], width: int) -> list[str]:
    return [" " * width + line for line in lines]


def _filled(template: str, **blocks: list[str]) -> str:
    for name, lines in blocks.items():
        template = template.replace(f"@{name}@", "\n".join(lines))
    return template


SCRIPTS: dict[str, Callable[[list[Grammar]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
"""Shell → what makes its script."""
