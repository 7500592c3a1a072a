-- one row per request or notification that was lost, changed or answered between two captures of one conversation
--
-- What counts as the same conversation, and as the same message, is in `both_sides`. Nothing is listed if one of the captures
-- does not cover the time. If a row is not certain, an equal message on the other side may be this one, or a capture has
-- losses that could explain it. Changed ids, a changed order and the time on the way are only in `both_sides`.
--
--     select what, method, name, client_frame, server_frame from lost_between where is_certain
create view lost_between as
with sides as (
    select
        *,
        case sender when 'client' then client_frame else server_frame end as asker_frame,
        case sender when 'client' then server_frame else client_frame end as receiver_frame,
        case sender when 'client' then client_response else server_response end as asker_response,
        case sender when 'client' then server_response else client_response end as receiver_response,
        case sender when 'client' then client_outcome else server_outcome end as asker_outcome,
        case sender when 'client' then server_outcome else client_outcome end as receiver_outcome,
        case sender when 'client' then client_is_cancelled else server_is_cancelled end as asker_is_cancelled,
        coalesce(sender = 'client' and client_status >= 400, false)
            and coalesce(client_status <> server_status, true) as is_refused_between
    from both_sides
    where is_request_covered
),
judged as (
    select
        *,
        case
            when kind = 'notification' then
                case
                    when receiver_frame is null then 'notification_lost'
                    when asker_frame is null then 'notification_added'
                    when is_request_changed then 'notification_changed'
                end
            when asker_frame is null then 'request_added'
            when asker_response is null and is_refused_between then 'answered_between'
            when receiver_frame is null then case when asker_response is null then 'request_lost' else 'answered_between' end
            when is_response_covered and asker_response is null and receiver_response is not null
                and not asker_is_cancelled and asker_outcome not in ('cancelled', 'not_recorded') then 'response_lost'
            when is_response_covered and asker_response is not null and receiver_response is null
                and receiver_outcome <> 'not_recorded' then 'answered_between'
            when is_response_changed and asker_outcome = 'error' and receiver_outcome <> 'error' then 'answered_between'
            when is_request_changed then 'request_changed'
            when is_response_changed then 'response_changed'
        end as what
    from sides
)
select
    judged.time as time,
    what, is_certain, captures.server as server, sender, method, judged.name as name,
    client_capture, client_ms, client_session, client_frame, client_item, client_response, client_outcome, client_status,
    server_capture, server_ms, server_session, server_frame, server_item, server_response, server_outcome, server_status,
    is_request_changed, is_response_changed
from judged join captures on captures.capture = server_capture
where what is not null
order by judged.time nulls last, client_capture, server_capture, client_frame nulls last, server_frame nulls last, client_item nulls last, server_item nulls last;
comment on view lost_between is 'one row per request or notification that was lost, changed or answered between two captures of one conversation';
comment on column lost_between.time is 'when it was sent, UTC, as in both_sides';
comment on column lost_between.what is 'request_lost (its receiver never saw it), response_lost, notification_lost, answered_between (its sender got a response, or an HTTP status from 400 on, that the receiver did not give), request_changed, response_changed, notification_changed, or request_added and notification_added (its sender did not send it: another client in the same session did, or something in between)';
comment on column lost_between.is_certain is 'whether it is certain which message this is on the other side, or that the other side lacks it';
comment on column lost_between.server is 'name of the captured server in the capture nearer to the server';
comment on column lost_between.sender is 'its sender: client or server';
comment on column lost_between.method is 'its method';
comment on column lost_between.name is 'the tool, prompt or resource that it is about; NULL if it names none';
comment on column lost_between.client_capture is 'id of the capture that was taken nearer to the client';
comment on column lost_between.client_ms is 'when it was there, in ms since that capture opened; NULL if that capture lacks it';
comment on column lost_between.client_session is 'number of its session in the capture nearer to the client; NULL if that lacks it';
comment on column lost_between.client_frame is 'number of its frame there; NULL if that capture lacks it';
comment on column lost_between.client_item is 'its place in that frame, from 0, if the frame contains several messages';
comment on column lost_between.client_response is 'for a request: frame number of the response there';
comment on column lost_between.client_outcome is 'for a request: its outcome there, as in exchanges';
comment on column lost_between.client_status is 'for a request over HTTP: the status of the HTTP response there';
comment on column lost_between.server_capture is 'id of the capture that was taken nearer to the server';
comment on column lost_between.server_ms is 'when it was there, in ms since that capture opened; NULL if that capture lacks it';
comment on column lost_between.server_session is 'number of its session in the capture nearer to the server; NULL if that lacks it';
comment on column lost_between.server_frame is 'number of its frame there; NULL if that capture lacks it';
comment on column lost_between.server_item is 'its place in that frame';
comment on column lost_between.server_response is 'for a request: frame number of the response there';
comment on column lost_between.server_outcome is 'for a request: its outcome there';
comment on column lost_between.server_status is 'for a request over HTTP: the status of the HTTP response there';
comment on column lost_between.is_request_changed is 'whether its params differ; NULL if it is not in both, or they cannot be compared. The order of members, the way a number is written, progress tokens, ids that other messages refer to, and trace context do not count';
comment on column lost_between.is_response_changed is 'the same for the result or error';
