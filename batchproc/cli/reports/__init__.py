"""What was done and used: by a run, by a campaign, by tenants, as figures for Prometheus."""
