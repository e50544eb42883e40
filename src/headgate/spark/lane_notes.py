"""Which lane reads which streams, as the checkpoint notes it: after a restart Spark needs the same sources in the same
order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from headgate.runtime.limits import text_of
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import FORMAT, READABLE

FILE = "lanes.json"


def note(checkpoint: Checkpoint, lanes: Mapping[str, Sequence[str]]) -> None:
    """Writes the streams of all lanes."""
    checkpoint.write(FILE, json.dumps({"format": FORMAT, "lanes": lanes}).encode())


def noted(checkpoint: Checkpoint) -> dict[str, list[str]]:
    """The streams of each lane, as an earlier run noted them; CheckpointError if the file cannot be used."""
    text = checkpoint.text(FILE)
    if text is None:
        return {}
    try:
        found = json.loads(text)
        # Earlier versions wrote the lanes alone.
        format_ = found.get("format", FORMAT)
        lanes = found["lanes"] if "format" in found else found
        read = {str(name): [str(stream) for stream in streams] for name, streams in lanes.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"checkpoint {checkpoint.name}: {FILE} is damaged ({text_of(error)}); restore it from a copy, or give a"
            " new checkpoint folder to start over from the sources"
        ) from error
    if format_ not in READABLE:
        raise CheckpointError(checkpoint.unknown_format(FILE, format_))
    return read
