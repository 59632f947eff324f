-- By stretches of so many seconds from the start: what ended in them, and how long workers were busy in them.
with ended as (
    select floor(extract(epoch from ended_at - %(since)s) / %(width)s)::integer as bucket, kind,
           count(*) filter (where became = 'completed') as completed,
           count(*) filter (where became = 'discarded') as discarded,
           coalesce(sum(pages), 0) as pages, 0::double precision as busy
    from report_attempts
    group by 1, 2
), busy as (
    select b.bucket, a.kind, 0, 0, 0,
           sum(greatest(0, least(a.e, (b.bucket + 1) * %(width)s) - greatest(a.b, b.bucket * %(width)s)))
    from (select kind, greatest(0, extract(epoch from began_at - %(since)s)::double precision) as b,
                 extract(epoch from ended_at - %(since)s)::double precision as e
          from report_attempts) a
    cross join lateral generate_series(
        floor(a.b / %(width)s)::integer, floor(a.e / %(width)s)::integer) as b(bucket)
    group by 1, 2
)
select bucket, kind, sum(completed)::bigint as completed, sum(discarded)::bigint as discarded,
       sum(pages)::bigint as pages, sum(busy) as busy
from (select * from ended union all select * from busy) f
group by bucket, kind
order by bucket, kind
