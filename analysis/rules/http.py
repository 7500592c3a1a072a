"""The group `http`: how messages, sessions and streams travel over Streamable HTTP."""

from analysis.rules.http_eras import (
    BufferingHeader,
    ErrorStatus,
    GetOrDeleteModern,
    NotFoundWithoutError,
    SessionHeaderModern,
)
from analysis.rules.http_get_stream import (
    Broadcast,
    RelatedOnGetStream,
    ResponseOnGetStream,
)
from analysis.rules.http_headers import (
    GetAccept,
    MessageNotPosted,
    OriginAccepted,
    OriginStatus,
    PostAccept,
    Redirected,
    RequestContentType,
)
from analysis.rules.http_modern import (
    HeaderEncoding,
    HeaderMismatchAccepted,
    MethodHeader,
    NameHeader,
    ParamHeader,
)
from analysis.rules.http_session import (
    DeadSessionServed,
    SessionIdChanged,
    SessionIdCharacters,
    SessionIdLate,
    SessionIdWeak,
    SessionNotDeleted,
)
from analysis.rules.http_session_used import (
    DeleteWithoutSession,
    InitializeWithSessionId,
    MissingSessionHeader,
    MissingSessionNot400,
    SessionReusedAfter404,
    UnknownSessionId,
)
from analysis.rules.http_status import (
    AcceptedWithBody,
    GetAnswer,
    JsonNotSingle,
    NotificationStatus,
    RequestNotAnswered,
    ResponseContentType,
    ResponseIdMismatch,
)
from analysis.rules.http_streams import (
    AnswerOnOtherStream,
    MessageAfterAnswer,
    StreamEndedUnanswered,
    StreamKeptOpen,
    UnrelatedOnPostStream,
)
from analysis.rules.http_version import (
    BadVersionAccepted,
    MissingProtocolVersionHeader,
    ProtocolVersionMismatch,
)

__all__ = [
    "AcceptedWithBody",
    "AnswerOnOtherStream",
    "BadVersionAccepted",
    "Broadcast",
    "BufferingHeader",
    "DeadSessionServed",
    "DeleteWithoutSession",
    "ErrorStatus",
    "GetAccept",
    "GetAnswer",
    "GetOrDeleteModern",
    "HeaderEncoding",
    "HeaderMismatchAccepted",
    "InitializeWithSessionId",
    "JsonNotSingle",
    "MessageAfterAnswer",
    "MessageNotPosted",
    "MethodHeader",
    "MissingProtocolVersionHeader",
    "MissingSessionHeader",
    "MissingSessionNot400",
    "NameHeader",
    "NotFoundWithoutError",
    "NotificationStatus",
    "OriginAccepted",
    "OriginStatus",
    "ParamHeader",
    "PostAccept",
    "ProtocolVersionMismatch",
    "Redirected",
    "RelatedOnGetStream",
    "RequestContentType",
    "RequestNotAnswered",
    "ResponseContentType",
    "ResponseIdMismatch",
    "ResponseOnGetStream",
    "SessionHeaderModern",
    "SessionIdChanged",
    "SessionIdCharacters",
    "SessionIdLate",
    "SessionIdWeak",
    "SessionNotDeleted",
    "SessionReusedAfter404",
    "StreamEndedUnanswered",
    "StreamKeptOpen",
    "UnknownSessionId",
    "UnrelatedOnPostStream",
]
