"""Who gives a command, for what is written down of it."""

from __future__ import annotations

import os
import pwd


def login_name() -> str:
    """Who runs this process, by its user id: the environment's names may say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
