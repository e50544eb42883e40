"""Reads recorded arrivals (stream and time of each row) from a CSV file."""

from __future__ import annotations

import csv
from datetime import datetime
from math import inf, isfinite
from pathlib import Path

from headgate.scheduling import ModelError
from headgate.scheduling.errors import closest

COLUMNS = ("stream", "time")


def read_trace(path: Path, until: float = inf) -> dict[str, list[float]]:
    """Arrival times by stream, in seconds from the first row, from CSV with a header `stream,time`.

    A time is a number of seconds or an ISO timestamp. Rows may be in any order; rows more than `until` seconds
    after the first are left out.
    """
    moments: dict[str, list[float]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            header = [name.strip().lower() for name in rows.fieldnames or ()]
            for column in COLUMNS:
                if column not in header:
                    hint = closest(column, header) if header else "the file is empty"
                    raise ModelError(f"{path}:1: the header has no column '{column}'; {hint}")
            rows.fieldnames = header
            for row in rows:
                where = f"{path}:{rows.line_num}"
                stream = (row["stream"] or "").strip()
                if not stream:
                    raise ModelError(f"{where}: the row names no stream")
                moments.setdefault(stream, []).append(_moment((row["time"] or "").strip(), where))
    except OSError as error:
        raise ModelError(f"{path}: {(error.strerror or str(error)).lower()}; give a CSV file of arrivals") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except csv.Error as error:
        raise ModelError(f"{path}: not CSV: {error}") from error
    if not moments:
        raise ModelError(f"{path}: the file has no rows; write one line stream,time for each arrival")
    first = min(min(times) for times in moments.values())
    return {
        stream: sorted(moment - first for moment in times if moment - first <= until)
        for stream, times in moments.items()
    }


def _moment(text: str, where: str) -> float:
    try:
        moment = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text).timestamp()
        except ValueError:
            raise ModelError(f"{where}: time '{text}' is neither seconds nor an ISO timestamp") from None
    if not isfinite(moment):
        raise ModelError(f"{where}: time '{text}' is not finite")
    return moment
