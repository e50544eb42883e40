"""Converts commits of checkpoint format 1, which earlier versions wrote, to format 2.

A commit of format 1 contains the manifest, the places of its parts and the queries. Its plans and what its policies
have learned are pickled: they are never loaded. A restart makes a new plan, and the policy learns again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headgate.spark.messages import Place

FORMAT = 1


def as_format_2(found: Mapping[str, Any], body: Place) -> dict[str, Any]:
    """The values of the commit; `body` is its JSON in its file, which serves as the manifest."""
    manifests = found["manifests"]
    return {
        "epoch": found["epoch"],
        "lanes": found["lanes"],
        "snapshots": [asdict(body) for _ in manifests],
        "files": sorted({place["file"] for place in found["parts"].values()}),
        "results": found["results"],
        "newest": [],
        # The driver wrote all sinks.
        "unwritten": found["results"],
        "written": [],
        "failures": manifests[0]["failures"] if manifests else [],
        "plan": "",
        "complete": found["complete"],
    }


def manifest(found: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest in a commit: format 1 has one replica."""
    places: dict[str, dict[str, list[int]]] = {}
    for key, place in found["parts"].items():
        places.setdefault(place["file"], {})[key] = [place["offset"], place["length"], place["crc"]]
    return {**found["manifests"][0], "places": places}


def described(found: Mapping[str, Any]) -> dict[str, Any]:
    """The SQL and the class of each query in a commit."""
    return dict(found["plan"])
