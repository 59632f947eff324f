"""The examination of an installation: what works, what does not, and what to do about it."""

from batchproc.ops.doctor.database import LEAST_SERVER
from batchproc.ops.doctor.examination import examine, not_examined

__all__ = ["LEAST_SERVER", "examine", "not_examined"]
