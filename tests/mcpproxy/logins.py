"""A login with every leg of an authorization, and a canary in every place that can hold a secret.

`canaried_login` makes the requests and responses; a test sends them through `serve`. Canaries are words of letters
only: nothing about them looks like a credential, so only a place can show that they are secret.
"""

import gzip
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from json import dumps
from typing import Any, Final
from urllib.parse import quote, urlencode

from mcpproxy.recorder.oauth_legs import Leg

STEM: Final = "qzcanary"
"""How every canary begins."""
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HTML: Final = "text/html; charset=utf-8"


@dataclass
class Step:
    """A request, the response to it, and what is to be recorded."""

    request: bytes
    response: bytes
    leg: Leg | None
    bodies: list[bytes]
    """The bodies that must not be stored, and of which no hash must be stored either."""


@dataclass
class Login:
    """The steps of a login at a server, in their order."""

    origin: str
    """Where the server says that it is."""
    host: str
    """The `Host` of the requests."""
    steps: list[Step] = field(default_factory=list)
    canaries: dict[str, str] = field(default_factory=dict)
    """Each canary, and the place where it is."""

    def secret(self, place: str) -> str:
        """Returns a new canary for a place."""
        number = len(self.canaries)
        canary = STEM + "".join(chr(ord("a") + number // 26**power % 26) for power in (2, 1, 0))
        self.canaries[canary] = place
        return canary

    def ask(
        self,
        leg: Leg | None,
        target: str,
        *fields: str,
        form: dict[str, str] | None = None,
        document: Any = None,
        body: bytes = b"",
        media: str = "",
        method: str = "",
        answer: tuple[int, tuple[str, ...], str, bytes] = (200, (), "", b""),
    ) -> None:
        """Add a step: a request with a form, a JSON document or another body, and its response."""
        if form is not None:
            body, media = urlencode(form).encode(), media or FORM
        elif document is not None:
            body, media = dumps(document).encode(), media or JSON
        method = method or ("POST" if body else "GET")
        cookie = f"Cookie: theme=dark; sid={self.secret(f'{target}: cookie')}"
        headers = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", cookie, *fields]
        headers += [f"Content-Type: {media}"] if media else []
        request = "\r\n".join([*headers, f"Content-Length: {len(body)}", "", ""]).encode() + body
        status, more, kind, sent = answer
        lines = [f"HTTP/1.1 {status} X", f"Set-Cookie: sid={self.secret(f'{target}: Set-Cookie')}; HttpOnly", *more]
        lines += [f"Content-Type: {kind}"] if kind else []
        response = "\r\n".join([*lines, f"Content-Length: {len(sent)}", "", ""]).encode() + sent
        is_public = leg in ("resource-metadata", "server-metadata", "challenge")
        self.steps.append(Step(request, response, leg, [] if is_public else [text for text in (body, sent) if text]))

    def say_reason(self, reason: str) -> None:
        """Put another reason phrase into the latest response."""
        step = self.steps[-1]
        step.response = step.response.replace(b" X\r\n", f" {reason}\r\n".encode(), 1)

    def send_in_chunks(self, extension: str, trailers: str) -> None:
        """Send the body of the latest request as a chunk with an extension, with trailers after it."""
        step = self.steps[-1]
        head, _, body = step.request.partition(b"\r\n\r\n")
        head = head.replace(f"Content-Length: {len(body)}".encode(), b"Transfer-Encoding: chunked")
        chunk = f"{len(body):x}{extension}\r\n".encode() + body
        step.request = head + b"\r\n\r\n" + chunk + f"\r\n0\r\n{trailers}\r\n".encode()


def told(document: Any, status: int = 200, *fields: str) -> tuple[int, tuple[str, ...], str, bytes]:
    """A response with a JSON document."""
    return status, fields, JSON, dumps(document).encode()


def page(text: str, status: int = 200, *fields: str) -> tuple[int, tuple[str, ...], str, bytes]:
    """A response with a page."""
    return status, fields, HTML, f"<!doctype html><title>Sign in</title>{text}".encode()


def sent_to(location: str, status: int = 302) -> tuple[int, tuple[str, ...], str, bytes]:
    """A redirect, with a page that links to the same address."""
    return page(f'<a href="{location}">on</a>', status, f"Location: {location}")


def canaried_login(origin: str, host: str) -> Login:
    """A login at usual paths, then one at paths that metadata announces, and the challenges of the endpoint."""
    login = Login(origin, host)
    _legs(login, lambda name: f"/oauth/{name}")
    _metadata(login)
    _legs(login, lambda name: f"/x/{name[::-1]}/")
    _pages(login)
    _challenges(login)
    _forms_at_the_endpoint(login)
    _corners(login)
    return login


def _metadata(login: Login) -> None:
    secret, origin = login.secret, login.origin
    path = "/.well-known/oauth-protected-resource"
    resource = {
        "resource": f"{origin}/mcp?{secret('query of the resource')}",
        "authorization_servers": [f"{origin}/{secret('path of the authorization server')}"],
        "scopes_supported": ["mcp:tools"],
        "client_secret": secret("secret in metadata"),
        "more": {"registration_access_token": secret("token in metadata")},
    }
    login.ask("resource-metadata", f"{path}/mcp?t={secret('query of metadata')}", answer=told(resource))
    login.ask("resource-metadata", path, answer=page(secret("page in the place of metadata"), 404))
    names = {
        "authorization_endpoint": "authorize",
        "token_endpoint": "token",
        "registration_endpoint": "register",
        "revocation_endpoint": "revoke",
        "introspection_endpoint": "introspect",
        "device_authorization_endpoint": "device",
    }
    server = {"issuer": origin} | {member: f"{origin}/x/{name[::-1]}" for member, name in names.items()}
    for place in (
        "/.well-known/oauth-authorization-server",
        f"/.well-known/oauth-authorization-server/{secret('path of an issuer')}",
        "/.well-known/openid-configuration",
        f"/{secret('path before metadata')}/.well-known/openid-configuration",
    ):
        login.ask("server-metadata", place, answer=told(server | {"x": f"{origin}/{secret('address in metadata')}"}))


def _legs(login: Login, path: Callable[[str], str]) -> None:
    _registration(login, path("register"))
    _authorize(login, path("authorize"))
    _token(login, path("token"))
    secret = login.secret
    basic = b64encode(f"{secret('Basic user')}:{secret('Basic password')}".encode()).decode()
    token = {"token": secret("revoked token"), "token_type_hint": "refresh_token"}
    login.ask("revocation", path("revoke"), f"Authorization: Basic {basic}", form=token)
    token = {"token": secret("introspected token"), "client_secret": secret("client_secret of introspection")}
    active = {name: secret(f"introspection: {name}") for name in ("username", "sub", "jti", "client_id", "email")}
    login.ask("introspection", path("introspect"), form=token, answer=told({"active": True, "scope": "a", **active}))
    asked = {"client_id": secret("client of a device"), "client_secret": secret("client_secret of a device")}
    codes = {name: secret(name) for name in ("device_code", "user_code")}
    uri = f"{login.origin}/{secret('verification_uri')}?{secret('verification_uri_complete')}"
    answer = told({**codes, "verification_uri": uri, "verification_uri_complete": uri, "expires_in": 600})
    login.ask("device", path("device"), form=asked, answer=answer)


def _registration(login: Login, path: str) -> None:
    secret, origin = login.secret, login.origin
    asked: dict[str, Any] = {
        "redirect_uris": [
            f"https://client.example/{secret('path of redirect_uri')}?x={secret('query of redirect_uri')}",
            f"app.example:/{secret('custom redirect_uri')}",
        ],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": "mcp:tools",
        "client_name": secret("client_name"),
        "contacts": [f"{secret('contact')}@a.example"],
        "jwks": {"keys": [{"kty": "RSA", "n": secret("jwks"), "d": secret("private key")}]},
        "software_id": secret("software_id"),
        "software_statement": secret("software_statement"),
        "password": secret("password in a registration"),
    }
    for member in ("client_uri", "logo_uri", "tos_uri", "policy_uri", "jwks_uri"):
        asked[member] = f"https://client.example/{secret(member)}?{secret(f'query of {member}')}"
    granted = asked | {
        "client_id": secret("client_id"),
        "client_secret": secret("client_secret"),
        "registration_access_token": secret("registration_access_token"),
        "registration_client_uri": f"{origin}/{secret('registration_client_uri')}",
    }
    initial = f"Authorization: Bearer {secret('initial access token')}"
    login.ask("registration", path, initial, document=asked, answer=told(granted, 201))
    refused = {"error": "invalid_redirect_uri", "error_description": f"not {asked['redirect_uris'][1]}"}
    login.ask("registration", path, document=asked, answer=told(refused, 400))


def _authorize(login: Login, path: str) -> None:
    secret = login.secret

    def asked() -> dict[str, str]:
        names = ("client_id", "state", "nonce", "code_challenge", "login_hint", "id_token_hint", "request")
        return {
            "response_type": "code",
            "redirect_uri": f"https://client.example/{secret('path')}?{secret('query')}",
            "scope": "mcp:tools",
            "resource": f"{login.origin}/{secret('path of a resource')}",
            "code_challenge_method": "S256",
            **{name: secret(f"authorize: {name}") for name in names},
        }

    def back(**parameters: str) -> str:
        return f"https://client.example/{secret('path of Location')}?{urlencode(parameters, quote_via=quote)}"

    query = f"{path}?{urlencode(asked())}#{secret('fragment')}"
    granted = back(code=secret("code"), state=secret("state"), iss=f"{login.origin}/{secret('path of iss')}")
    login.ask("authorize", query.partition("#")[0], answer=sent_to(granted))
    parameters = asked()
    more = secret("another parameter of Location")
    said = f"no {parameters['state']} for {parameters['login_hint']}, {more}"
    refused = back(error="access_denied", error_description=said, state=parameters["state"], x=more)
    login.ask("authorize", f"{path}?{urlencode(parameters)}", answer=sent_to(refused, 303))
    tokens = {name: secret(f"fragment: {name}") for name in ("access_token", "id_token", "code", "state")}
    fragment = f"app.example:/{secret('custom')}#{urlencode(tokens)}"
    login.ask("authorize", f"{path}?{urlencode(asked())}", answer=sent_to(fragment))
    hidden = f"<input type=hidden name=csrf value={secret('csrf')}><p>{secret('name on a page')}"
    login.ask("authorize", f"{path}?{urlencode(asked())}", answer=page(hidden))
    form = {"username": secret("username"), "password": secret("password"), "csrf": secret("csrf"), **asked()}
    answer = page(f"<form><input name=code value={secret('code in a page')}><input name=state value=x></form>")
    login.ask("authorize", path, f"Referer: {login.origin}{path}?{secret('Referer')}", form=form, answer=answer)


def _token(login: Login, path: str) -> None:
    secret = login.secret
    urn = "urn:ietf:params:oauth:"
    grants: dict[str, tuple[str, ...]] = {
        "authorization_code": ("code", "code_verifier", "client_id"),
        "refresh_token": ("refresh_token", "client_secret", "client_id"),
        "client_credentials": ("client_assertion", "client_id"),
        "password": ("username", "password"),
        f"{urn}grant-type:device_code": ("device_code", "client_id"),
        f"{urn}grant-type:jwt-bearer": ("assertion",),
        f"{urn}grant-type:token-exchange": ("subject_token", "actor_token"),
    }

    def tokens(of: str) -> dict[str, Any]:
        names = ("access_token", "refresh_token", "id_token", "c_nonce")
        return {**{name: secret(f"{of}: {name}") for name in names}, "token_type": "DPoP", "expires_in": 60}

    for grant, names in grants.items():
        form = {"grant_type": grant} | {name: secret(f"{grant}: {name}") for name in names}
        form["redirect_uri"] = f"https://client.example/{secret('path of redirect_uri')}"
        basic = b64encode(f"{secret('Basic user')}:{secret('Basic password')}".encode()).decode()
        proof = f"DPoP: {secret(f'{grant}: proof')}"
        login.ask("token", path, f"Authorization: Basic {basic}", proof, form=form, answer=told(tokens(grant)))
        form = {name: secret(f"{grant}: {name} again") for name in names} | {"grant_type": grant}
        said = " and ".join(form[name] for name in names)
        error = {"error": "invalid_grant", "error_description": f"{said} are over", "x": secret("more of an error")}
        nonce = f"DPoP-Nonce: {secret('nonce')}"
        login.ask("token", path, form=form, answer=told(error, 400, nonce))
        login.ask("token", path, form=form, answer=page(f"<p>{said} {secret('page')}", 500))

    like = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "grant_type": "password",
        "password": secret("as a call"),
    }
    result = told({"jsonrpc": "2.0", "id": 7, "result": {"access_token": secret("as a result")}})
    login.ask("token", path, document=like, answer=result)
    event = f"data: {dumps({'jsonrpc': '2.0', 'id': 7, 'result': {'access_token': secret('as an event')}})}\n\n"
    stream = 200, (), "text/event-stream", event.encode()
    login.ask("token", path, form={"grant_type": "password", "password": secret("password")}, answer=stream)
    packed = gzip.compress(dumps(tokens("compressed")).encode())
    plain = urlencode({"grant_type": "refresh_token", "refresh_token": secret("compressed token")}).encode()
    encoding = "Content-Encoding: gzip"
    answer = 200, (encoding,), JSON, packed
    login.ask("token", path, encoding, body=gzip.compress(plain), media=FORM, answer=answer)
    undecodable = urlencode({"grant_type": "refresh_token", "refresh_token": secret("unknown coding")}).encode()
    repeated = told({"error": "invalid_request", "error_description": secret("unknown coding, repeated")}, 400)
    leg: Leg | None = "token" if path.startswith("/x/") else None  # otherwise only its content could prove it
    login.ask(leg, path, "Content-Encoding: x", body=undecodable, media=FORM, answer=repeated)


def _pages(login: Login) -> None:
    """Pages of logins at paths that nothing announces, and callbacks."""
    secret, origin = login.secret, login.origin
    login.ask(None, f"/login?state={secret('state of a page')}", answer=page(secret("login page")))
    back = f"https://client.example/cb?code={secret('code')}&state={secret('state')}"
    form = {"username": secret("username"), "password": secret("password")}
    login.ask("authorize", "/login", form=form, answer=sent_to(back))
    error = {"error": "access_denied", "error_description": f"{form['password']} of {form['username']}"}
    login.ask(None, "/login", form=form, answer=told(error, 401))
    login.ask(None, "/login", document={"user": form}, answer=told(error | {"error": "wrong"}, 401))
    part = f'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\n{secret("multipart")}\r\n--x--\r\n'.encode()
    login.ask(None, "/login", body=part, media="multipart/form-data; boundary=x", answer=told(error, 401))
    login.ask(None, "/userinfo", f"Authorization: DPoP {secret('token')}", answer=told({"email": secret("email")}))
    asked = {name: secret(f"pushed {name}") for name in ("client_id", "client_secret", "state", "login_hint")}
    pushed = told({"request_uri": f"urn:x:{secret('request_uri')}", "expires_in": 60}, 201)
    login.ask(None, "/par", form={"response_type": "code", **asked}, answer=pushed)
    client = {name: secret(f"client: {name}") for name in ("client_id", "client_secret", "registration_access_token")}
    bearer = f"Authorization: Bearer {client['registration_access_token']}"
    login.ask(None, f"/register/{client['client_id']}", bearer, document=client, method="PUT", answer=told(client))
    query = urlencode({"code": secret("code of a callback"), "state": secret("state of a callback")})
    login.ask("callback", f"/auth/callback?{query}", answer=sent_to(f"{origin}/done?token={secret('query')}"))
    query = urlencode({"error": "server_error", "error_description": "it failed", "state": secret("state")})
    login.ask("callback", f"/auth/callback?{query}", answer=page(secret("page of a callback"), 400))


def _challenges(login: Login) -> None:
    secret = login.secret
    for status, challenge in (
        (401, "Bearer"),
        (401, 'Bearer realm="mcp", error="invalid_token", error_description="{token} is over", scope="mcp:tools"'),
        (401, 'Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/{path}"'),
        (401, 'DPoP algs="ES256", error="use_dpop_nonce", nonce="{more}"'),
        (401, 'Basic realm="mcp", x="{more}"'),
        (401, 'Digest realm="mcp", nonce="{more}", opaque={path}'),
        (401, "Negotiate {more}"),
        (401, 'Basic realm="mcp", Bearer error="invalid_token", error_description="{token}", x="{more}"'),
        (401, 'GNAP as_uri="{origin}", referent="{more}"'),
        (403, 'Bearer error="insufficient_scope", scope="mcp:admin", error_description="not {token}"'),
        (401, 'Bearer error_description="unfinished {token}'),
    ):
        token = secret(f"token for {challenge}")
        values = {"more": secret(challenge), "path": secret(f"path in {challenge}"), "origin": login.origin}
        fields = (f"Authorization: Bearer {token}", f"DPoP: {secret('proof')}", f"Mcp-Session-Id: {secret('session')}")
        answered = f"WWW-Authenticate: {challenge.format(token=token, **values)}", f"DPoP-Nonce: {secret('nonce')}"
        answer = told({"error": "invalid_token", "error_description": f"{token} is over"}, status, *answered)
        login.ask("challenge", "/mcp", *fields, body=PING, media=JSON, answer=answer)


def _forms_at_the_endpoint(login: Login) -> None:
    secret = login.secret
    for status in (400, 401):
        leg: Leg | None = "challenge" if status == 401 else None
        form = {"user": secret("user at the endpoint"), "pass": secret("password at the endpoint")}
        challenge = f'WWW-Authenticate: Bearer error_description="{form["pass"]}"'
        answer = page(f"<p>no {form['pass']} of {form['user']}", status, challenge)
        login.ask(leg, "/mcp", form=form, answer=answer)
        word = secret("multipart at the endpoint")
        part = f'--x\r\nContent-Disposition: form-data; name="p"\r\n\r\n{word}\r\n--x--\r\n'.encode()
        answer = page(f"<p>no {word}", status, f'WWW-Authenticate: Bearer error_description="{word}"')
        login.ask(leg, "/mcp", body=part, media="multipart/form-data; boundary=x", answer=answer)
        word = secret("text at the endpoint")
        # Not a form by its media type, so hashes are kept, but no text that could repeat it.
        answer = page(f"<p>no {word}", status, f'WWW-Authenticate: Bearer error_description="{word}"')
        login.ask(leg, "/mcp", body=word.encode(), media="text/plain", answer=answer)
        login.steps[-1].bodies.clear()


def _corners(login: Login) -> None:
    """Secrets in places of HTTP where hardly anyone puts them."""
    secret = login.secret
    path = "/oauth/token"

    def refused(*words: str) -> tuple[int, tuple[str, ...], str, bytes]:
        return told({"error": "invalid_grant", "error_description": " ".join(words)}, 400)

    word = secret("reason phrase")
    form = {"grant_type": "password", "password": word}
    login.ask("token", path, form=form, answer=refused("x"))
    login.say_reason(f"no {word}")
    word = secret("reason phrase at the endpoint")
    login.ask(None, "/mcp", f"Authorization: Bearer {word}", body=PING, media=JSON, answer=page("x", 400))
    login.say_reason(f"no {word} {word[::-1]}")
    login.steps[-1].bodies.clear()
    word = secret("posted to metadata")
    login.ask("server-metadata", "/.well-known/oauth-authorization-server", form={"x": word}, answer=refused(word))
    login.steps[-1].bodies.clear()
    login.ask(None, "/.well-known/jwks.json", form={"x": word}, answer=told({"keys": [word]}))
    keys = {
        "keys": [{"kty": "RSA", "d": secret("private key")}],
        "API_KEY": [secret("key")],
        "jwt": {"a": secret("jwt")},
    }
    login.ask(None, "/.well-known/jwks.json", answer=told(keys))
    login.steps[-1].bodies.clear()
    word = secret("after the end of gzip")
    body = gzip.compress(b"grant_type=password") + f"&password={word}".encode()
    login.ask(None, path, "Content-Encoding: gzip", body=body, media=FORM, answer=refused(word))
    login.ask(None, "/mcp", "Content-Encoding: gzip", body=body, media=FORM, answer=refused(word))
    word = secret("in UTF-16")
    body = f"grant_type=password&password={word}".encode("utf-16")
    login.ask(None, path, body=body, media=FORM, answer=refused(word))
    login.ask(None, "/mcp", body=body, media=FORM, answer=refused(word))
    extension, trailer = secret("chunk extension"), secret("trailer")
    for extras in ((f";x={extension}", ""), ("", f"X-Trailer: {trailer} 0\r\n")):
        legs: dict[str, Leg | None] = {path: "token", "/mcp": None}
        for target, leg in legs.items():
            login.ask(leg, target, form={"grant_type": "password"}, answer=refused(extension, trailer))
            login.send_in_chunks(*extras)
