select clock_timestamp() - make_interval(secs => %(seconds)s)
