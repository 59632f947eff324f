"""What operators set in the database: tenants, kinds and storage roots."""
