"""The verdicts of `mcpproxy doctor URL --as CLIENT`, in the order in which it checks for them."""

from __future__ import annotations

from typing import Final

from mcpproxy.doctor.verdict import Verdict


class PlainHttpUrl(Verdict):
    """The URL does not begin with https.

    **What it means.** The client accepts only URLs with https, because its requests cross the internet.

    **What to do.** Give the server a certificate, or put a proxy or a tunnel with a certificate in front of it, and
    enter that URL.
    """

    id = "hosted/not-https"


class UrlCredential(Verdict):
    """The query of the URL has a credential.

    **What it means.** The client does not support tokens and keys in the URL, where logs and histories would keep
    them. The evidence names the parameters, not their values.

    **What to do.** Let the server use OAuth, or a header if the client can send one, and enter the URL without the
    parameters.
    """

    id = "hosted/credentials-in-url"


class UnsupportedTransport(Verdict):
    """The server speaks a transport that the client does not.

    **What it means.** There are two HTTP transports: Streamable HTTP, and the older HTTP+SSE. The evidence says which
    of them the server speaks at this URL, and which the client accepts.

    **What to do.** Serve a transport that the client accepts; most SDKs can serve both, at different paths.
    """

    id = "hosted/transport"


class ForeignRedirect(Verdict):
    """The server redirects to another origin.

    **What it means.** The scheme, host or port of the target is not that of the URL. Clients do not send credentials
    along after such a redirect, so a login succeeds and the first request after it is refused.

    **What to do.** Enter the URL at which the server listens, or let the server answer at the first URL itself.
    """

    id = "hosted/redirected"


class MissingCorsHeader(Verdict):
    """A page in a browser may not call the server, or may not read its session id.

    **What it means.** A browser asks with OPTIONS before it lets a page of another origin call the server, and hides
    headers of responses that are not exposed. The evidence says which header is missing. Clients that do not run in a
    page do not need this.

    **What to do.** Answer OPTIONS with `Access-Control-Allow-Origin` and with `Access-Control-Allow-Headers` for
    `Authorization`, `Content-Type`, `MCP-Protocol-Version` and `Mcp-Session-Id`. Add `Access-Control-Allow-Origin` and
    `Access-Control-Expose-Headers: Mcp-Session-Id` to responses.
    """

    id = "hosted/cors"


class MissingChallenge(Verdict):
    """The server refuses requests without credentials, but not with status 401.

    **What it means.** The client begins a login only after status 401. Any other status looks like a server that does
    not work.

    **What to do.** Answer requests without valid credentials with status 401 and
    `WWW-Authenticate: Bearer resource_metadata="…"`.
    """

    id = "hosted/no-challenge"


class MissingMetadataPointer(Verdict):
    """The challenge does not say where the document about the protected resource is.

    **What it means.** The client then guesses the place. That works here, but costs requests, and stops working if the
    document moves.

    **What to do.** Add `resource_metadata` with the URL of the document to `WWW-Authenticate: Bearer`.
    """

    id = "hosted/no-pointer"
    fails = False


class MissingResourceMetadata(Verdict):
    """There is no document about the protected resource where the client looks for it.

    **What it means.** The document (RFC 9728) tells the client which authorization server to use. Without it, a login
    cannot begin. The evidence lists the requested URLs and the responses.

    **What to do.** Serve the document at `/.well-known/oauth-protected-resource` followed by the path of the endpoint,
    without requiring credentials, and name its URL as `resource_metadata` in `WWW-Authenticate`. If the document is
    there and could not be read, see what the evidence says: a web page with status 200 is not a document.
    """

    id = "hosted/no-metadata"


class MissingPathMetadata(Verdict):
    """The document about the protected resource is not at its well-known place with the path of the endpoint.

    **What it means.** For an endpoint `/mcp`, that place is `/.well-known/oauth-protected-resource/mcp`. The client
    finds the document elsewhere, but users reported failures in this case.

    **What to do.** Serve the same document at both places, with the path and without.
    """

    id = "hosted/no-metadata-by-path"
    fails = False


class ResourceMismatch(Verdict):
    """The document about the protected resource is about another URL.

    **What it means.** The client compares `resource` with the URL that was entered, path and final slash included, and
    refuses the document if they differ. Behind a tunnel or a proxy, servers often name their inner address.

    **What to do.** Set the server's public URL in its configuration, so that `resource` is exactly the URL that users
    enter; or enter the URL that `resource` names.
    """

    id = "hosted/resource-mismatch"


class MissingServerMetadata(Verdict):
    """There is no document about the authorization server where the client looks for it.

    **What it means.** The document (RFC 8414 or OpenID Connect Discovery) names the addresses at which a login happens.
    The client uses the first of `authorization_servers`. The evidence lists the requested URLs and the
    responses.

    **What to do.** List the issuer's URL first in `authorization_servers`, and serve its document at
    `/.well-known/oauth-authorization-server` or `/.well-known/openid-configuration`, followed by the path of the
    issuer.
    """

    id = "hosted/no-server-metadata"


class MissingPkce(Verdict):
    """The authorization server does not announce PKCE with S256.

    **What it means.** Clients protect the login with PKCE, and look for `S256` in `code_challenge_methods_supported`
    before they begin.

    **What to do.** Support S256, and add `"code_challenge_methods_supported": ["S256"]` to the document about the
    authorization server.
    """

    id = "hosted/no-pkce"


class MissingRegistration(Verdict):
    """The client cannot introduce itself to the authorization server.

    **What it means.** The document about the authorization server announces neither client ID metadata documents nor
    dynamic client registration. The client then has to be registered by hand, and users have to enter its
    client ID.

    **What to do.** Announce `client_id_metadata_document_supported`, with `none` in
    `token_endpoint_auth_methods_supported`, or a `registration_endpoint`. Otherwise, register the client with its
    redirect URI; docs/clients.md lists the redirect URIs.
    """

    id = "hosted/no-registration"
    fails = False


class SlowDiscovery(Verdict):
    """A document about authorization comes later than the client waits.

    **What it means.** The client gives up, even if the document comes in the end. Servers that are started by the
    first request are often this slow.

    **What to do.** Serve the documents from a process that is always running, or from a cache.
    """

    id = "hosted/slow-discovery"


class InvalidToolName(Verdict):
    """The client does not accept the name of a tool.

    **What it means.** The protocol allows more characters, and longer names, than the models behind this client. The
    evidence says what one such name costs.

    **What to do.** Rename the tools that the evidence lists.
    """

    id = "hosted/tool-name"


class MissingToolAnnotations(Verdict):
    """Tools lack annotations that the client wants.

    **What it means.** Annotations say whether a tool only reads or also changes something. Without them, the client
    assumes the worst, or does not list the server in its directory.

    **What to do.** Add the annotations that the evidence names to the tools in it.
    """

    id = "hosted/tool-annotations"
    fails = False


class UnsupportedToolSchema(Verdict):
    """The schema of a tool has a form that the client does not understand.

    **What it means.** The schema is valid, but the client hides the tool, cuts its schema, or fails.

    **What to do.** Write the schemas that the evidence names without the forms in it: copy what `$ref` refers to, and
    use one type for each value.
    """

    id = "hosted/tool-schema"
    fails = False


class ExcessiveToolCount(Verdict):
    """The server has more tools than the client can use at once.

    **What it means.** Tools beyond the limit are not offered to the model, or the server cannot be added.

    **What to do.** Offer fewer tools, or let users choose a part of them.
    """

    id = "hosted/tool-count"
    fails = False


class MissingTools(Verdict):
    """The server lacks tools that a part of the client needs.

    **What it means.** Other parts of the client use the server as it is. The evidence names the part and the tools.

    **What to do.** Add the tools if the server is meant for that part of the client.
    """

    id = "hosted/missing-tools"
    fails = False


HOSTED_VERDICTS: Final[tuple[type[Verdict], ...]] = (
    PlainHttpUrl,
    UrlCredential,
    UnsupportedTransport,
    ForeignRedirect,
    MissingCorsHeader,
    MissingChallenge,
    MissingMetadataPointer,
    MissingResourceMetadata,
    MissingPathMetadata,
    ResourceMismatch,
    MissingServerMetadata,
    MissingPkce,
    MissingRegistration,
    SlowDiscovery,
    InvalidToolName,
    MissingToolAnnotations,
    UnsupportedToolSchema,
    ExcessiveToolCount,
    MissingTools,
)
