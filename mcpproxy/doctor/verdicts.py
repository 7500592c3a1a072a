"""Every verdict of `mcpproxy doctor`, in the order in which they are looked for."""

from __future__ import annotations

from typing import Final

from mcpproxy.doctor.verdict import Verdict


class Unreadable(Verdict):
    """The configuration file does not parse.

    **What it means.** The client cannot read the file, so it knows none of the servers in it. Some clients say so,
    others start with no servers.

    **What to do.** Mend the file at the line and column that are named. `mcpproxy install` does not touch the file
    until it parses.
    """

    id = "config/unreadable"


class Comment(Verdict):
    """A comment or a trailing comma is in a file that takes neither.

    **What it means.** This client reads strict JSON. Claude Code reports a malformed file and loads no server of
    it; Cline shows an error.

    **What to do.** Delete the comment or the comma that is named.
    """

    id = "config/comment"


class WrongKey(Verdict):
    """The servers are under a name that this client does not read.

    **What it means.** Clients disagree on the name of the map: VS Code reads `servers`, Zed `context_servers`,
    OpenCode and Crush `mcp`, most others `mcpServers`. A client ignores the maps of others.

    **What to do.** Rename the map to the name that is given in the advice.
    """

    id = "config/wrong-key"


class UnreadFile(Verdict):
    """Servers are in a file that this client does not read.

    **What it means.** The file looks like a configuration of this client, but it looks elsewhere. Nothing in the
    file has any effect.

    **What to do.** Move the entries to the file that is named. docs/clients.md lists the files of every client.
    """

    id = "config/unread-file"


class NotTrusted(Verdict):
    """The client has not been told to trust this project or this server.

    **What it means.** Servers of a project could run anything, so clients start them only after the user has
    agreed. Until then the server does not exist for the client, often without a message.

    **What to do.** Start the client in the project and agree when it asks. To see whether the server works before you
    agree, name it: `mcpproxy doctor CLIENT SERVER` starts it all the same.
    """

    id = "config/not-trusted"


class NeedsConsent(Verdict):
    """The server belongs to the project, so doctor does not start it unless you name it.

    **What it means.** Whoever can write to the repository chooses what its servers run, and where a URL with your
    credentials leads. The files of this client do not say that you trust them, so nothing was started and no request
    was sent. The client may ask you, or start it without asking.

    **What to do.** Read the entry. If you trust it, run the command that the advice names.
    """

    id = "config/needs-consent"
    fails = False


class VariableUnset(Verdict):
    """A variable in the entry has no value.

    **What it means.** The client replaces `${NAME}` and the like by variables of its own environment. Claude Code
    refuses the whole file if one has no value; others pass an empty text or the literal `${NAME}` on to the
    server.

    **What to do.** Set the variable where the client gets its environment, or give it a default if the client's
    syntax has one (`${NAME:-value}` in Claude Code). A desktop application does not read your shell's startup
    files.
    """

    id = "config/variable-unset"


class ShellWords(Verdict):
    """The client passes the command to a shell, which changes its words.

    **What it means.** Auggie joins the command and its arguments with blanks for `/bin/sh -c`. Blanks split words,
    `$` expands, `;` and `&` start other commands.

    **What to do.** Use paths without blanks and shell signs, or put the command into a script and name that.
    """

    id = "config/shell-words"


class CannotRecord(Verdict):
    """mcpproxy cannot create a capture, so it does not start the server.

    **What it means.** The fault is the recorder's, and nothing is known about the server. The directory for captures
    cannot be made or written to, others could replace what is in it, or its disk is full. `mcpproxy run` then starts
    nothing and ends with status 73: a server that is not recorded would look as if it were.

    **What to do.** Make the directory that is named one that only you can write to, on a disk with free space. Or
    record elsewhere: `mcpproxy uninstall`, then `mcpproxy install --capture DIR`.
    """

    id = "route/cannot-record"


class NotFound(Verdict):
    """The command is not found on the client's PATH.

    **What it means.** The client looks for the command on its own PATH, which may be shorter than that of your
    shell: version managers such as nvm extend PATH in startup files that a desktop application never reads. Or
    `command` holds arguments as well (`"command": "npx -y foo"`): no shell splits it, so the client looks for a
    program of that whole name.

    **What to do.** Write the full path that is named into the entry's `command`. If the command starts other
    programs, as npx starts node, set `PATH` in the entry's `env`, too. Of a command with arguments, leave the
    program in `command` and write each argument as a word of `args`, as the advice shows.
    """

    id = "start/not-found"


class NotExecutable(Verdict):
    """The command exists, but cannot be executed.

    **What it means.** The file has no permission to execute, or it is a directory.

    **What to do.** `chmod +x` the file, or name the interpreter in `command` and the file in `args`.
    """

    id = "start/not-executable"


class InterpreterMissing(Verdict):
    """The interpreter of the script is not found.

    **What it means.** The first line of the script names an interpreter (`#!/usr/bin/env node`) that is not on the
    client's PATH. The system then says that the script itself does not exist.

    **What to do.** Set `PATH` in the entry's `env` to a list that holds the interpreter's directory, or name the
    interpreter in `command`.
    """

    id = "start/interpreter-missing"


class Exits(Verdict):
    """The server ends before it has answered `initialize`.

    **What it means.** The process started and ended by itself. Its last lines on stderr, which most clients hide,
    are shown as evidence.

    **What to do.** Read these lines. Missing credentials, a missing package and a wrong argument are the usual
    causes.
    """

    id = "start/exits"


class NoAnswer(Verdict):
    """The server runs, but does not answer `initialize` before the client gives up.

    **What it means.** The process started and read, but nothing came back in the client's time. It may wait for a
    network, download a package, or not speak MCP on stdio at all.

    **What to do.** Run the command by hand and see what it waits for. `mcpproxy show` has what crossed, stderr
    included.
    """

    id = "start/no-answer"


class TooSlow(Verdict):
    """The server answers, but only after the client has given up.

    **What it means.** It took longer than this client waits for a server to start. The client shows an error, or no
    tools.

    **What to do.** Install the package instead of fetching it at each start (`npx -y`, `uvx`), or raise the client's
    time-out: `MCP_TIMEOUT` in Claude Code, `startup_timeout_sec` in Codex, `timeout` in most others.
    """

    id = "start/too-slow"


class Slow(Verdict):
    """The server starts, but takes most of the time that the client allows.

    **What it means.** It answered, after more than half of the client's time-out. On a busy machine, or when a
    package is downloaded, the client will give up.

    **What to do.** Install the package instead of fetching it at each start (`npx -y`, `uvx`), or raise the
    client's time-out.
    """

    id = "start/slow"
    fails = False


class Refused(Verdict):
    """The server answers `initialize` or `tools/list` with an error.

    **What it means.** The server speaks MCP and says no. The error is shown as evidence.

    **What to do.** Read the error. A server that knows no revision of the client's is too old or too new for it.
    """

    id = "start/refused"


class LogOnStdout(Verdict):
    """The server prints lines on stdout that are not messages.

    **What it means.** stdout belongs to the protocol. Some clients skip such a line, others end the session.

    **What to do.** Send logs to stderr. In Python, `print(..., file=sys.stderr)`; in Node, `console.error`.
    """

    id = "stdio/log-on-stdout"
    fails = False


class ProxyLost(Verdict):
    """The proxy variables of your shell do not reach the server.

    **What it means.** This client starts servers with a reduced environment. HTTPS_PROXY and the like are not
    passed on, so a server that needs the proxy cannot reach the network.

    **What to do.** Write the variables into the entry's `env`; in Codex, name them in `env_vars`.
    """

    id = "environment/proxy-lost"
    fails = False


class AuthorityLost(Verdict):
    """The variables that name your certificate authority do not reach the server.

    **What it means.** This client starts servers with a reduced environment, without NODE_EXTRA_CA_CERTS,
    SSL_CERT_FILE or REQUESTS_CA_BUNDLE. Behind a company's TLS proxy, the server trusts no certificate.

    **What to do.** Write the variables into the entry's `env`.
    """

    id = "environment/ca-lost"
    fails = False


class LoopbackProxied(Verdict):
    """The client sends requests for this machine to the proxy.

    **What it means.** HTTPS_PROXY or HTTP_PROXY is set, and NO_PROXY does not name 127.0.0.1. Most clients then
    ask the proxy for a server on this machine, and the proxy cannot reach it.

    **What to do.** Start the client with `NO_PROXY=127.0.0.1,localhost,::1`.
    """

    id = "http/loopback-proxied"
    fails = False


class Unreachable(Verdict):
    """The server's host cannot be reached.

    **What it means.** The name is unknown, or the network refuses the way there. Nothing of MCP was tried.

    **What to do.** Check the address. Behind a company's network, set HTTPS_PROXY.
    """

    id = "http/unreachable"


class PortClosed(Verdict):
    """Nothing listens on the server's port.

    **What it means.** The host is there and refuses the connection. The server does not run, or runs on another
    port.

    **What to do.** Start the server. If the address is one of mcpproxy's own, start `mcpproxy up`.
    """

    id = "http/port-closed"


class UntrustedCertificate(Verdict):
    """The TLS connection fails.

    **What it means.** The certificate is not signed by an authority that is trusted here, is for another name, or
    is out of date. A company's TLS proxy causes the first.

    **What to do.** Name the authority's certificates: NODE_EXTRA_CA_CERTS for clients on Node, SSL_CERT_FILE for
    others, `serve --ca-file` for mcpproxy.
    """

    id = "http/tls"


class Unauthorized(Verdict):
    """The server requires credentials.

    **What it means.** It answers 401 or 403. With OAuth, a client that has not logged in gets this as well, and
    then opens a login.

    **What to do.** Log in with the client, or put the header that the server expects into the entry. `doctor`
    sends the entry's headers, and no login of the client's.
    """

    id = "http/unauthorized"


class Redirected(Verdict):
    """The server redirects to another address.

    **What it means.** Many clients do not follow a redirect of a POST, or lose the credentials on the way.

    **What to do.** Write the address that is named into the entry.
    """

    id = "http/redirected"


class WrongTransport(Verdict):
    """The entry names another HTTP transport than the server speaks.

    **What it means.** HTTP+SSE opens a stream with GET and posts to the address that the stream names; Streamable
    HTTP posts to the address itself. A client that tries the wrong one gets 404, 405 or nothing.

    **What to do.** Change the entry's `type` (`sse` or `http`), or in Gemini CLI and Qwen Code the member: `url`
    for HTTP+SSE, `httpUrl` for Streamable HTTP.
    """

    id = "http/wrong-transport"


class NotMcp(Verdict):
    """The address answers, but not as an MCP server.

    **What it means.** There is a web server, but not at this path: it answers with 404, or with a page.

    **What to do.** Check the path. Most servers are at `/mcp`, older ones at `/sse`.
    """

    id = "http/not-mcp"


class HttpNoAnswer(Verdict):
    """The server accepts the connection, but does not answer.

    **What it means.** No response came in the client's time.

    **What to do.** Try the address with `curl -v`. A proxy on the way may hold event streams back.
    """

    id = "http/no-answer"


VERDICTS: Final[tuple[type[Verdict], ...]] = (
    Unreadable,
    Comment,
    WrongKey,
    UnreadFile,
    NotTrusted,
    NeedsConsent,
    VariableUnset,
    ShellWords,
    CannotRecord,
    NotFound,
    NotExecutable,
    InterpreterMissing,
    Exits,
    NoAnswer,
    TooSlow,
    Slow,
    Refused,
    LogOnStdout,
    ProxyLost,
    AuthorityLost,
    LoopbackProxied,
    Unreachable,
    PortClosed,
    UntrustedCertificate,
    Unauthorized,
    Redirected,
    WrongTransport,
    NotMcp,
    HttpNoAnswer,
)
