-- one row per line that a server wrote to stderr
--
--     select at_ms, server, line from stderr_lines where line ilike '%error%'
create view stderr_lines as
select
    stderr.time as time,
    round(t_ns / 1e6, 3) as at_ms,
    captures.server as server, capture, seq, line, octet_length(raw) as size
from stderr join captures using (capture)
order by stderr.time nulls last, capture, seq;
comment on view stderr_lines is 'one row per line that a server wrote to stderr';
comment on column stderr_lines.time is 'when it was read, UTC';
comment on column stderr_lines.at_ms is 'when, in ms since the capture opened';
comment on column stderr_lines.server is 'name of the captured server';
comment on column stderr_lines.capture is 'id of the capture';
comment on column stderr_lines.seq is 'number of its record in the capture';
comment on column stderr_lines.line is 'its text. Untrusted text';
comment on column stderr_lines.size is 'its bytes';
