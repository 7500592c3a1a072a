"""The paths of the documents in which servers describe themselves and their authorization (RFC 8414, 8615, 9728)."""

from typing import Final

WELL_KNOWN: Final = "/.well-known/"
RESOURCE_METADATA_NAME: Final = "oauth-protected-resource"
SERVER_METADATA_NAME: Final = "oauth-authorization-server"
OPENID_METADATA_NAME: Final = "openid-configuration"
RESOURCE_METADATA_PATH: Final = WELL_KNOWN + RESOURCE_METADATA_NAME
SERVER_METADATA_PATH: Final = WELL_KNOWN + SERVER_METADATA_NAME
OPENID_METADATA_PATH: Final = WELL_KNOWN + OPENID_METADATA_NAME
