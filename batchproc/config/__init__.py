"""Loading the settings from files, the environment and flags; only the command line does that."""

from batchproc.config.loading import SettingsError, cpus_available, load, worker_count

__all__ = ["SettingsError", "cpus_available", "load", "worker_count"]
