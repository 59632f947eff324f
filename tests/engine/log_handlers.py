"""A handler that writes to the log in every way there is."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import warnings

from loguru import logger

from batchproc import Context, handler

MODULE = __name__

print("printed when it is imported")  # noqa: T201


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


@handler("l_prints", max_attempts=1)
def prints(ctx: Context) -> None:
    print("printed\x1b[31m by python, with password=hunter2")  # noqa: T201
    print("unfinished", end="")  # noqa: T201
    sys.stdout.flush()
    os.write(2, "\nprinted by a library, in \xfcmlauts\n".encode("latin-1"))
    subprocess.run([sys.executable, "-c", "print('printed by a program')"], check=True)


@handler("l_dies", max_crashes=1)
def dies(_: Context) -> None:
    print("printed before the end")  # noqa: T201
    os.write(2, b"terminate called: the last words")
    os.kill(os.getpid(), signal.SIGSEGV)


@handler("l_quiet")
def quiet(_: Context) -> None:
    logger.info("said by the next job")
