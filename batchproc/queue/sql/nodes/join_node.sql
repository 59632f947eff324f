insert into batchproc.nodes
    (node_id, lease_until, host, pid, slots, kinds, languages, default_languages, engine_version,
     code_version, reads_ranges)
values
    (%(node_id)s, clock_timestamp() + make_interval(secs => %(lease)s), %(host)s, %(pid)s, %(slots)s, %(kinds)s,
     %(languages)s, %(default_languages)s, %(engine_version)s, %(code_version)s, true)
-- Asked again after an answer that was lost.
on conflict (node_id) do update set lease_until = excluded.lease_until
