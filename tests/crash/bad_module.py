"""A module of Python functions whose import hangs or fails, if the environment says so."""

from __future__ import annotations

import os
import time

import pyarrow as pa

while os.environ.get("BAD_MODULE") == "hang":
    time.sleep(1)
if os.environ.get("BAD_MODULE") == "raise":
    raise SystemExit("not today")


def harmless(values: pa.Array) -> pa.Array:
    return values
