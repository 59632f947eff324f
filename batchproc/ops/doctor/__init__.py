"""The examination of an installation: what works, what does not, and what to do about it."""

from batchproc.ops.doctor.examination import LEAST_SERVER, examine, not_examined

__all__ = ["LEAST_SERVER", "examine", "not_examined"]
