"""A handler that writes to the log in every way there is."""

from __future__ import annotations

import logging
import threading
import warnings

from loguru import logger

from batchproc import Context, handler

MODULE = __name__


@handler("l_talks", max_attempts=2, base=0.01, cap=0.01)
def talks(ctx: Context) -> None:
    ctx.log.info("said by ctx.log")
    logger.info("said by loguru")
    logging.getLogger("some.library").warning("said by logging")
    warnings.warn(f"said by warnings in attempt {ctx.attempt}", stacklevel=1)  # each text is shown once
    thread = threading.Thread(target=lambda: logger.warning("said by a thread"))
    thread.start()
    thread.join()
    if ctx.attempt == 1:
        raise ValueError("said by an exception")


@handler("l_quiet")
def quiet(_: Context) -> None:
    logger.info("said by the next job")
