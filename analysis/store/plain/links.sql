-- The request to which a frame belongs, and the name in it: all that the rows of frames still need. The rest makes room,
-- as DuckDB writes rows ten times as slowly when its memory is full.

create temp table link as
select seq, seq as request, name from asked
union all
select response, seq, name from asked where response is not null;

drop table said;
drop table asked;
drop table turn;
drop table pair;
drop table flow;
drop table cancelled;
drop table progressed;
