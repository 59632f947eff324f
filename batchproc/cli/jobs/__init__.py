"""Jobs: added, looked at, explained, changed and deleted."""
