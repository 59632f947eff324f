"""The embedded PostgreSQL, used when no database URL is configured."""

from batchproc.embedded.server import DATABASE, ROLE, EmbeddedServer, ServerStatus, default_home

__all__ = ["DATABASE", "ROLE", "EmbeddedServer", "ServerStatus", "default_home"]
