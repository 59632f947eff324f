-- A second record of every settle, which batchproc does not know of: what ended a claim, and what touched a job that
-- had ended already.
create table public.chaos_settles (
    claim_id  uuid,
    job_id    bigint not null,
    new_state text not null
);

create function public.chaos_note() returns trigger language plpgsql as $$
begin
    insert into public.chaos_settles values (old.claim_id, old.job_id, new.state);
    return null;
end
$$;

create trigger chaos_note after update on batchproc.processing_jobs for each row
    when (old.claim_id is distinct from new.claim_id and old.claim_id is not null
          or old.state in ('completed', 'discarded', 'cancelled'))
    execute function public.chaos_note();
