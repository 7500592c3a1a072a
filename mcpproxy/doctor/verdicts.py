"""The verdicts of `mcpproxy doctor`, in the order in which it checks for them."""

from __future__ import annotations

from typing import Final

from mcpproxy.doctor.hosted_verdicts import HOSTED_VERDICTS
from mcpproxy.doctor.verdict import Verdict


class UnreadableFile(Verdict):
    """The configuration file does not parse.

    **What it means.** The client cannot read the file, so it knows none of the servers in it. Some clients report this;
    others silently start without any servers.

    **What to do.** Fix the file at the line and column shown. `mcpproxy install` does not touch the file until it
    parses.
    """

    id = "config/unreadable"


class JsonComment(Verdict):
    """The file contains a comment or a trailing comma, which this client rejects.

    **What it means.** This client reads strict JSON. Claude Code reports a malformed file and loads no servers
    from it; Cline shows an error.

    **What to do.** Delete the comment or comma at the line and column shown.
    """

    id = "config/comment"


class WrongKey(Verdict):
    """The servers are under a key that this client does not read.

    **What it means.** Clients use different keys for their servers: VS Code reads `servers`, Zed `context_servers`,
    OpenCode and Crush `mcp`, most others `mcpServers`. Each client ignores the keys of the others.

    **What to do.** Rename the key as the advice says.
    """

    id = "config/wrong-key"


class UnreadFile(Verdict):
    """Servers are in a file that this client does not read.

    **What it means.** The file looks like this client's configuration, but the client reads a different one. Nothing
    in this file has any effect.

    **What to do.** Move the entries to the file given in the advice. docs/clients.md lists the files of every client.
    """

    id = "config/unread-file"


class UntrustedServer(Verdict):
    """The client has not been told to trust this project or this server.

    **What it means.** The servers of a project could run anything, so clients start them only after you agree. Until
    then, the client behaves as if the server did not exist, often without telling you.

    **What to do.** Start the client in the project and agree when it asks. To see whether the server works before you
    agree, name it: `mcpproxy doctor CLIENT SERVER` starts it anyway.
    """

    id = "config/not-trusted"


class MissingConsent(Verdict):
    """The server belongs to the project, so doctor does not start it unless you name it.

    **What it means.** Whoever can write to the repository chooses what its servers run, and where a URL sends your
    credentials. This client's files do not say that you trust the server, so nothing was started and no request was
    sent. The client may ask you before it starts the server, or may start it without asking.

    **What to do.** Read the entry. If you trust it, run the command given in the advice.
    """

    id = "config/needs-consent"
    fails = False
    leaves_unexamined = True


class OverriddenEntry(Verdict):
    """The client uses another entry of the same name, so doctor does not start this one unless you name it.

    **What it means.** Of several entries of one name, a client uses the most specific: those of a project come before
    your own. The evidence names the entry that is used.

    **What to do.** Rename or remove one of the two entries if you need both or only the other.
    """

    id = "config/overridden"
    fails = False
    leaves_unexamined = True


class MissingCommand(Verdict):
    """The entry has no command or URL that doctor can read, so the server was not examined.

    **What it means.** Some clients have servers of their own that need neither. Otherwise the command or the URL is
    missing, is misspelt, or has a form that mcpproxy does not know. `mcpproxy install` cannot route such a server.

    **What to do.** Compare the entry with the documentation of the client. To examine the server anyway, give doctor
    its command: `mcpproxy doctor -- COMMAND`.
    """

    id = "config/no-command"
    fails = False
    leaves_unexamined = True


class UnsetVariable(Verdict):
    """A variable in the entry has no value.

    **What it means.** The client replaces `${NAME}` and the like with variables from its own environment. Claude Code
    rejects the whole file if one has no value, mcporter the server; others pass the literal `${NAME}` on to the server.
    The evidence says which member of the entry contains the variable.

    **What to do.** Set the variable in the environment in which the client starts, or give it a default if the
    client's syntax allows one (`${NAME:-value}` in Claude Code). A desktop application does not read your shell's
    startup files.
    """

    id = "config/variable-unset"


class EmptyVariable(Verdict):
    """A variable in the entry has no value, and the client passes on nothing instead.

    **What it means.** The client starts the server without the variable, or with an empty text in its place. The server
    may not need it; a missing password or token is the usual harm.

    **What to do.** If the server needs the variable, set it in the environment in which the client starts. A desktop
    application does not read your shell's startup files.
    """

    id = "config/variable-empty"
    fails = False


class UnknownVariable(Verdict):
    """Only the client knows the value of a variable in the entry, so the server was not examined.

    **What it means.** The value is a secret or an input that the client stores, a setting, or the file in the editor.
    doctor cannot know it, and a server that is started without it would fail for that reason.

    **What to do.** Run the command of the entry yourself, with values in place of the variables:
    `mcpproxy doctor -- COMMAND`.
    """

    id = "config/variable-unknown"
    fails = False
    leaves_unexamined = True


class ShellWords(Verdict):
    """The client passes the command to a shell, which changes its words.

    **What it means.** Auggie joins the command and its arguments with spaces and passes the result to `/bin/sh -c`.
    There, spaces split words, `$` is expanded, and `;` and `&` start other commands.

    **What to do.** Use paths without spaces or shell metacharacters, or put the command into a script and make that
    script the entry's command.
    """

    id = "config/shell-words"


class FailedRecording(Verdict):
    """mcpproxy cannot create a capture, so it does not start the server.

    **What it means.** The problem is with the recorder; nothing is known about the server. The directory for captures
    cannot be created or written to, others could replace its contents, or its disk is full. `mcpproxy run` then starts
    nothing and exits with status 73, because an unrecorded server would look as if it were recorded.

    **What to do.** Make sure that only you can write to the directory shown, and that its disk has free space. Or
    record elsewhere: `mcpproxy uninstall`, then `mcpproxy install --capture DIR`.
    """

    id = "route/cannot-record"


class UnrecordedServer(Verdict):
    """The server is used unrecorded, because mcpproxy cannot create a capture.

    **What it means.** The directory for captures cannot be created or written to, others could replace its contents,
    or its disk is full. The client still has its server, because `install` writes `--if-unrecordable=pass`: `mcpproxy
    run` then starts the server without a capture, and says so in one line on stderr. The server stays unrecorded until
    it ends; its next start tries again.

    **What to do.** Make sure that only you can write to the directory shown, and that its disk has free space; then
    restart the server in its client. `mcpproxy status` and `mcpproxy ls` say which servers run unrecorded.
    """

    id = "route/unrecorded"
    fails = False


class MissingProgram(Verdict):
    """The command is not on the client's PATH.

    **What it means.** The client looks for the command on its own PATH, which may be shorter than your
    shell's: version managers such as nvm extend PATH in startup files that a desktop application never reads. Or
    `command` also contains the arguments (`"command": "npx -y foo"`): no shell splits it, so the client looks for a
    program with that whole name.

    **What to do.** Write the full path given in the advice into the entry's `command`. If the command starts other
    programs, as npx starts node, set `PATH` in the entry's `env`, too. If `command` also contains the arguments,
    leave only the program in it and write each argument as a separate string in `args`, as the advice shows.
    """

    id = "start/not-found"


class NonExecutableProgram(Verdict):
    """The command exists, but cannot be executed.

    **What it means.** The file is not marked as executable, or it is a directory.

    **What to do.** Run `chmod +x` on the file, or put the interpreter into `command` and the file into `args`.
    """

    id = "start/not-executable"


class MissingInterpreter(Verdict):
    """The script's interpreter cannot be found.

    **What it means.** The first line of the script names an interpreter (`#!/usr/bin/env node`) that is not on the
    client's PATH. The system then says that the script itself does not exist.

    **What to do.** Set `PATH` in the entry's `env` to a list that includes the interpreter's directory, or put the
    interpreter into `command` and the script into `args`.
    """

    id = "start/interpreter-missing"


class EarlyExit(Verdict):
    """The server exits before it answers `initialize`.

    **What it means.** The process started, and then exited on its own. Its last lines on stderr, which most clients
    hide, are shown as evidence.

    **What to do.** Read its last lines on stderr, or run the command by hand if there are none. Missing credentials, a
    missing package and a wrong argument are the usual causes.
    """

    id = "start/exits"


class MissingAnswer(Verdict):
    """The server runs, but does not answer `initialize` before the client gives up.

    **What it means.** The process started, but sent no answer before the client's time-out. It may be waiting for the
    network or downloading a package, or it may not speak MCP on stdio at all.

    **What to do.** Run the command by hand and see what it waits for. If the server is routed, `mcpproxy show`
    shows the traffic since its client last started it, including stderr.
    """

    id = "start/no-answer"


class StartTimeout(Verdict):
    """The server answers, but only after the client has given up.

    **What it means.** It took longer than this client waits for a server to start. The client shows an error, or no
    tools.

    **What to do.** Install the package instead of fetching it at each start (`npx -y`, `uvx`), or raise the client's
    time-out: `MCP_TIMEOUT` in Claude Code, `startup_timeout_sec` in Codex, `timeout` in most others.
    """

    id = "start/too-slow"


class SlowStart(Verdict):
    """The server starts, but takes most of the time that the client allows.

    **What it means.** It answered, but only after more than half of the client's time-out. On a busy machine, or while
    a package is being downloaded, the client may give up.

    **What to do.** Install the package instead of fetching it at each start (`npx -y`, `uvx`), or raise the
    client's time-out.
    """

    id = "start/slow"
    fails = False


class RefusedRequest(Verdict):
    """The server answers `initialize` or `tools/list` with an error.

    **What it means.** The server speaks MCP, but it refused the request. The error is shown as evidence.

    **What to do.** Read the error. If the server knows none of the client's revisions, one of the two is too old
    for the other.
    """

    id = "start/refused"


class LogOnStdout(Verdict):
    """The server prints lines to stdout that are not messages.

    **What it means.** stdout is reserved for the protocol. Some clients skip such lines; others end the session.

    **What to do.** Send logs to stderr. In Python, `print(..., file=sys.stderr)`; in Node, `console.error`.
    """

    id = "stdio/log-on-stdout"
    fails = False


class LostProxy(Verdict):
    """The proxy variables of your shell do not reach the server.

    **What it means.** This client starts servers with a reduced environment. HTTPS_PROXY and the like are not
    passed on, so a server that needs the proxy cannot reach the network.

    **What to do.** Write the variables into the entry's `env`; in Codex, name them in `env_vars`.
    """

    id = "environment/proxy-lost"
    fails = False


class LostAuthority(Verdict):
    """The variables that name your certificate authority do not reach the server.

    **What it means.** This client starts servers with a reduced environment, without NODE_EXTRA_CA_CERTS,
    SSL_CERT_FILE or REQUESTS_CA_BUNDLE. Behind a corporate TLS proxy, the server then rejects every certificate.

    **What to do.** Write the variables into the entry's `env`.
    """

    id = "environment/ca-lost"
    fails = False


class LoopbackProxy(Verdict):
    """The client sends requests for this machine to the proxy.

    **What it means.** HTTPS_PROXY or HTTP_PROXY is set, and NO_PROXY does not name 127.0.0.1. Most clients then
    send requests for a server on this machine to the proxy, which cannot reach that server.

    **What to do.** Start the client with `NO_PROXY=127.0.0.1,localhost,::1`.
    """

    id = "http/loopback-proxied"
    fails = False


class UnreachableHost(Verdict):
    """The server's host cannot be reached.

    **What it means.** The host name cannot be resolved, or there is no route to the host. No MCP message was sent.

    **What to do.** Check the address. On a corporate network, you may have to set HTTPS_PROXY.
    """

    id = "http/unreachable"


class ClosedPort(Verdict):
    """Nothing is listening on the server's port.

    **What it means.** The host is up, but it refuses the connection. The server is not running, or it listens on
    another port.

    **What to do.** Start the server. If the address is that of a listener of mcpproxy, run `mcpproxy up`.
    """

    id = "http/port-closed"


class UntrustedCertificate(Verdict):
    """The TLS connection fails.

    **What it means.** The certificate is not signed by an authority that this machine trusts, is for another name, or
    has expired. A corporate TLS proxy can cause the first of these.

    **What to do.** Point to a file with the authority's certificates: NODE_EXTRA_CA_CERTS for clients that run on
    Node, SSL_CERT_FILE for other clients and `mcpproxy up`, `--ca-file` for `mcpproxy serve`.
    """

    id = "http/tls"


class MissingCredentials(Verdict):
    """The server requires credentials.

    **What it means.** It answers 401 or 403. With OAuth, a client that has not logged in gets this too, and then
    starts a login.

    **What to do.** Log in with the client, or put the header that the server expects into the entry. `doctor`
    sends the entry's headers, but it cannot use the client's login.
    """

    id = "http/unauthorized"


class UnfollowedRedirect(Verdict):
    """The server redirects in a way that clients do not follow.

    **What it means.** It redirects to another host or port, or from http to https; or with 301, 302 or 303, after which
    clients repeat a POST as a GET, without the message. Clients that follow such a redirect drop the credentials.

    **What to do.** Change the entry's URL to the address given in the advice.
    """

    id = "http/redirected"


class FollowedRedirect(Verdict):
    """The server redirects every request to another of its own addresses.

    **What it means.** The redirect stays within the server's origin and keeps the message (for a POST: 307 or 308), so
    the official SDKs follow it, through `mcpproxy serve` and `mcpproxy up` as well. But each request is sent twice, and
    clients that follow no redirects cannot use the server.

    **What to do.** Change the entry's URL to the address given in the advice, often the same URL with a slash at the
    end.
    """

    id = "http/redirect-followed"
    fails = False


class WrongTransport(Verdict):
    """The entry names one HTTP transport, but the server speaks the other.

    **What it means.** HTTP+SSE opens a stream with GET and posts to the address that the stream names; Streamable
    HTTP posts to the address itself. A client that tries the wrong one gets 404, 405 or nothing.

    **What to do.** Change the entry's `type` (`sse` or `http`), or, in Gemini CLI and Qwen Code, the member that
    contains the URL: `url` for HTTP+SSE, `httpUrl` for Streamable HTTP.
    """

    id = "http/wrong-transport"


class NonMcpServer(Verdict):
    """The address answers, but not as an MCP server.

    **What it means.** There is a web server at this address, but no MCP server at this path: the answer is 404 or a
    web page.

    **What to do.** Check the path. Most servers are at `/mcp`, older ones at `/sse`.
    """

    id = "http/not-mcp"


class MissingHttpAnswer(Verdict):
    """The server accepts the connection, but does not answer.

    **What it means.** No response came before the time-out.

    **What to do.** Try the address with `curl -v`. A proxy in between may be holding back event streams.
    """

    id = "http/no-answer"


VERDICTS: Final[tuple[type[Verdict], ...]] = (
    UnreadableFile,
    JsonComment,
    WrongKey,
    UnreadFile,
    UntrustedServer,
    MissingConsent,
    OverriddenEntry,
    MissingCommand,
    UnsetVariable,
    EmptyVariable,
    UnknownVariable,
    ShellWords,
    FailedRecording,
    UnrecordedServer,
    MissingProgram,
    NonExecutableProgram,
    MissingInterpreter,
    EarlyExit,
    MissingAnswer,
    StartTimeout,
    SlowStart,
    RefusedRequest,
    LogOnStdout,
    LostProxy,
    LostAuthority,
    LoopbackProxy,
    UnreachableHost,
    ClosedPort,
    UntrustedCertificate,
    MissingCredentials,
    UnfollowedRedirect,
    FollowedRedirect,
    WrongTransport,
    NonMcpServer,
    MissingHttpAnswer,
    *HOSTED_VERDICTS,
)
