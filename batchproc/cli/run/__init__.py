"""The node of this machine: what is due, or one job, or as a service."""
