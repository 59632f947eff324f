"""The peer of ``bench ocr``: a bare loop round Tesseract, as short as it can be written, in a process of its own.

Run as ``python -m batchproc.ops.bench.loop``. It reads one JSON object (paths, warm_up, tessdata, languages) from
stdin, loads the engine, reads the page ``warm_up``, writes ``ready``, waits for a line, reads all pages and writes
``{"ended": time.monotonic(), "texts": [...]}``. When stdin ends early it ends, too.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tesserocr
from PIL import Image

DPI = 300


def main() -> None:
    """Serves one bench run."""
    order = json.loads(sys.stdin.readline())
    api = tesserocr.PyTessBaseAPI(
        path=order["tessdata"] + "/",
        lang="+".join(order["languages"]),
        psm=tesserocr.PSM.AUTO,
        oem=tesserocr.OEM.LSTM_ONLY,
        variables={"debug_file": "/dev/null"},
    )
    _read(api, order["warm_up"])
    print("ready", flush=True)  # noqa: T201 - the protocol
    if not sys.stdin.readline():
        return
    texts = [_read(api, path) for path in order["paths"]]
    print(json.dumps({"ended": time.monotonic(), "texts": texts}), flush=True)  # noqa: T201 - the protocol


def _read(api: Any, path: str) -> str:
    with Image.open(path) as image:
        api.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
    api.SetSourceResolution(DPI)
    api.Recognize()
    text: str = api.GetUTF8Text()
    api.Clear()
    return text


if __name__ == "__main__":
    main()
