"""The demonstration: drawn documents of three tenants, imported and read by the real machinery."""

from batchproc.ops.demo.demonstration import Demo

__all__ = ["Demo"]
