"""The line itself, whatever its command: options that stand before all, groups, passwords, errors nobody expected."""
