"""What a run or a campaign did, gathered from the tables, as plain values and as one page of HTML with charts."""

from batchproc.ops.report.gathering import gather_campaign, gather_run
from batchproc.ops.report.model import Report
from batchproc.ops.report.page import html

__all__ = ["Report", "gather_campaign", "gather_run", "html"]
