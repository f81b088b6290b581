"""Drives a daemon with the official clients. Each behaviour prints one line of JSON."""
import asyncio
import json
import os
import re
import sys
import time
import traceback

import inside
import life
from clients import Does, Waits, behaviours, boxes, of


async def main():
    only = re.compile(os.environ.get("ONLY", ""))
    for c in (Waits, Does):
        for name, run in behaviours.items():
            if not only.search(name):
                continue
            began, error = time.monotonic(), None
            try:
                await asyncio.wait_for(run(c), 240)
            except Exception:
                error = traceback.format_exc()
            print(json.dumps({"name": f"{c.name}: {name}", "ms": int((time.monotonic() - began) * 1000), "error": error or ""}), flush=True)
    for c, box in boxes:
        try:
            await of(box.kill())
        except Exception as e:
            print(e, file=sys.stderr)


asyncio.run(main())
