select kinds, languages, default_languages from batchproc.nodes where lease_until > clock_timestamp()
