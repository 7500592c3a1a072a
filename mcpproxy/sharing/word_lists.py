"""Lists of words for redaction: names of members, users, hosts, launchers, URL parameters and schemes.

In doubt, a list favours redaction: many names count as names of secrets, and few as names that identify no person.
"""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SECRET_NAMES: Final = _words("""
    password passwd pwd passphrase passcode secret secrets apikey apitoken accesstoken refreshtoken idtoken authtoken
    bearertoken sessiontoken token privatekey secretkey accesskey secretaccesskey accountkey authorization
    proxyauthorization cookie setcookie credential credentials connectionstring dsn webhookurl otp pin cvv cvc ssn
    codeverifier clientsecret clientassertion assertion xapikey xauthtoken sharedaccesskey sharedaccesssignature
    encryptionkey signingkey sessionkey masterkey secretkeybase clientkeydata mnemonic seedphrase
""")
"""Names of members whose values are secrets, in lower case and without `_`, `-`, `.` and spaces."""

SESSION_NAMES: Final = _words("session sessionid")
"""Names of members whose random values are ids of sessions, in the same form as `SECRET_NAMES`."""

SECRET_ENDINGS: Final = tuple(
    _words("""
    password passwd passphrase secret apikey apitoken accesstoken refreshtoken authtoken bearertoken bottoken usertoken
    githubtoken privatekey secretkey accesskey accesskeyid connectionstring
""")
)
"""Endings of names of members whose values are secrets, in the same form."""

SECRET_NUMBERS: Final = _words("password pin otp cvv cvc ssn passcode")
"""Names of members whose values are secrets even if they are numbers."""

HARMLESS_VALUES: Final = _words("""
    none true false null required optional include omit same-origin basic bearer oauth oauth2 string number yes no
    enabled disabled auto default header query api_key apikey token password secret
""")
"""Values that are not secret even under the name of a secret."""

PLACEHOLDERS: Final = _words("""
    changeme change_me change-me replaceme replace_me replace-me fixme todo tbd placeholder dummy your_password_here
""")
"""Placeholders for secrets."""

PLACEHOLDER_NOUNS: Final = _words("""
    key keys token tokens secret password passwd pass passphrase credential credentials here id value me it
""")
"""The last words of placeholders, as in `YOUR_API_KEY` and `your-token-here`."""

PLACEHOLDER_VERBS: Final = _words("insert replace enter paste")
"""The first words of placeholders with an instruction, as in `INSERT_CLIENT_SECRET`."""

NON_PASSWORDS: Final = HARMLESS_VALUES | _words("""
    mandatory needed missing empty unset set invalid incorrect wrong changed expired unknown undefined nil given
    provided specified unspecified secure insecure encrypted hashed plain plaintext weak strong ok failed denied
    accepted supported unsupported deprecated sensitive masked hidden redacted removed placeholder
    str text varchar char integer int boolean bool bytes object array any value name key description type format
    return returns raise pass continue break await new input prompt env var variable example
    credentials credential login username user your_password n/a
""")
"""Values that are not passwords even after `password:` in a text."""

PROSE_WORDS: Final = _words("""
    a an the of for to is are was be must may can should will your you our their its his her this that these which
    with without when if and or not used from in on by at as has have contains protects required optional
""")
"""Words that show a text to be a sentence, not a password."""

OBJECT_NAMES: Final = _words("""
    self this os process config settings args options opts req request env environ environment ctx context user params
    cfg body form data credentials creds secrets session state props input event values
""")
"""Objects from which code reads a password."""

COOKIE_ATTRIBUTES: Final = _words("path domain expires max-age samesite version priority")
"""The attributes that may follow the value in a `Set-Cookie` header (RFC 6265, section 4.1)."""

ENVELOPE_MEMBERS: Final = _words("params result error")

SKELETON_WORDS: Final = _words("""
    jsonrpc 2.0 id method params result error code message data _meta name arguments content type text capabilities
    clientInfo serverInfo protocolVersion version
""")
"""Words that are kept in a torn message."""

PROTOCOL_MEMBERS: Final = _words("""
    name cursor nextCursor progressToken requestId protocolVersion code level taskId status resultType requestState
    stopReason role model mode action type elicitationId
""")
"""Members of `params`, `result` and `error` that pair messages, or whose values a specification lists."""

PAYLOAD_MEMBERS: Final = _words("""
    arguments argument content contents structuredContent messages message data systemPrompt inputResponses values
""")
"""Members of params, results and errors that contain the texts of users and models."""

PAYLOAD_FORM_MEMBERS: Final = _words("type mimeType role uri")
"""Members of the payload that describe the form of the content."""

META_MEMBERS: Final = _words("progressToken traceparent tracestate")
"""Members of `_meta` that the specification defines, except `baggage`, which applications fill with what they like."""

COMMON_USERS: Final = _words("user username you me shared public default runner root node app name")
"""Names in paths of home directories that identify no person."""

COMMON_ACCOUNTS: Final = _words("""
    admin administrator agent api apps azureuser backup bin bitnami build builder centos ci circleci claude cloud code
    codespace coder config core cursor data debian default demo deploy dev developer dist docker docs ec2-user etc
    example fedora file files folder ftp git github gitpod guest home http internal jenkins jovyan lib local mcp media
    mnt nobody node nonroot opc opt oracle path postgres project projects public python repo repos runner sandbox server
    service share shared site src ssh staff system temp test tester tmp tool tools ubuntu unknown user username users
    usr vagrant var vscode web work worker workspace www you your yourname
""")
"""Names of accounts that are also words. Replacing them everywhere would make texts unreadable."""

SPEC_HOSTS: Final = tuple(
    _words("""
    modelcontextprotocol.io json-schema.org schema.org w3.org ietf.org rfc-editor.org oauth.net openid.net jsonrpc.org
    example.com example.org example.net
""")
)
"""Hosts in specifications and examples, including their subdomains."""

PUBLIC_HOSTS: Final = _words("""
    localhost github.com raw.githubusercontent.com gist.github.com api.github.com docs.github.com gitlab.com npmjs.com
    www.npmjs.com registry.npmjs.org pypi.org developer.mozilla.org docs.python.org nodejs.org www.google.com
    en.wikipedia.org schemas.xmlsoap.org json.schemastore.org spdx.org
""")
"""Hosts so common in the prose of tools that they say nothing about who uses them."""

SPECIAL_DOMAINS: Final = (".invalid", ".example", ".test", ".localhost")
"""Domains that cannot exist (RFC 2606, RFC 6761)."""

NETWORK_SCHEMES: Final = _words("""
    http https ws wss ftp ssh git postgres postgresql mysql mariadb mongodb mongodb+srv redis rediss amqp amqps nats
    kafka smtp smtps imap imaps ldap ldaps
""")
"""Schemes of URLs that contain a host even if it has no dot."""

PLAIN_PARAMETERS: Final = _words("""
    q query search page per_page limit offset size count sort order lang hl format v version type mode tab view width
    height ref branch path id name response_type code_challenge_method grant_type scope fields filter start end from to
    since until
""")
"""Parameters of URLs whose values are not secret."""

LAUNCHERS: Final = _words("""
    npx npm bunx bun uvx uv pipx pnpm yarn python python3 node deno docker podman sh bash zsh java dotnet go ruby
""")
"""Programs so common that their names reveal nothing."""

IBAN_LENGTHS: Final = {
    word[:2]: int(word[2:])
    for word in _words("""
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29
    ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
    LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29
    PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
    YE30
    """)
}
"""The number of characters in a bank account, by country, from the IBAN registry of SWIFT."""

PHONE_NAMES: Final = _words("""
    phone phonenumber phoneno telephone telephonenumber tel telefon telefonnummer telefono telefone mobile mobilephone
    mobilenumber mobil handy handynummer cell cellphone celular cellulare movil fax faxnumber whatsapp msisdn sms gsm
    homephone workphone contactphone
""")
"""Names of members whose values are telephone numbers, in the same form as `SECRET_NAMES`."""

FILE_ENDINGS: Final = _words("""
    app bat c cc cfg conf cpp css csv env go h html ini java js json lock log md mjs php pl ps py rb rs sh so sql svg
    toml ts tsx txt xml yaml yml zip
""")
"""File extensions, some of which are top-level domains as well."""

FAMOUS_HOSTS: Final = _words("""
    amazon.com anthropic.com apache.org apple.com bing.com bitbucket.org cdn.jsdelivr.net cloudflare.com codecov.io
    coveralls.io crates.io creativecommons.org debian.org discord.com discord.gg django-project.com docker.com
    docs.google.com docs.microsoft.com docs.rs duckduckgo.com expressjs.com facebook.com fonts.googleapis.com
    getcomposer.org git-scm.com githubusercontent.com gnu.org golang.org google.com googleapis.com hub.docker.com
    hackerone.com huggingface.co iana.org img.shields.io instagram.com jetbrains.com jquery.com kernel.org
    kubernetes.io learn.microsoft.com linkedin.com linux.org linuxfoundation.org maven.org medium.com microsoft.com
    mit.edu mozilla.org mysql.com nginx.org npmjs.org nuget.org openai.com opensource.org opentelemetry.io oracle.com
    packagist.org peps.python.org pkg.go.dev postgresql.org pypi.python.org python.org react.dev readthedocs.io
    readthedocs.org reactjs.org reddit.com redis.io ruby-lang.org rubygems.org rust-lang.org shields.io slack.com
    sourceforge.net sqlite.org stackoverflow.com stackexchange.com support.google.com tools.ietf.org travis-ci.com
    travis-ci.org twitter.com typescriptlang.org ubuntu.com unicode.org unpkg.com vercel.com vuejs.org web.dev
    whatwg.org wikipedia.org x.com yahoo.com yaml.org yarnpkg.com youtube.com youtu.be zoom.us
""")
"""Hosts, with or without `www.`, that stay outside of URLs, because they are common in prose and code."""
