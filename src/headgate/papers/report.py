"""Fills the tables of `docs/papers.md` with the outcomes of `headgate reproduce --json`.

    python -m headgate.papers.report docs [OUTCOMES.json …]

`docs/papers-results.json` keeps the verdict and the figures of every experiment and seed; outcomes named on the command
line replace those of the same name and seed. In `docs/papers.md` everything between `<!-- KIND: NAME: KEY; … -->` and
`<!-- end -->` is then generated again:

- `verdicts`: all experiments by seed;
- `verdict: NAME`: with which seeds the claim holds;
- `figures: NAME: KEY; …`: figures of the paper and ours (all that the paper has, or those named);
- `matrix: NAME: KEY`: a group of groups of our figures, rows by columns; with several keys, each group is a row;
  `KEY[INNER]` takes the group INNER of each group of KEY;
- `columns: NAME: KEY; …`: groups of our figures, each a column;
- `series: NAME: LABEL; …`: curves (all, or those named), one row each.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.papers import EXPERIMENTS

PAGE, RESULTS = "papers.md", "papers-results.json"
FIRST = "1"
"""The seed whose figures are shown; of the others the range."""
POINTS = 12
"""Curves of at most this many points are kept."""
DIGITS = 4
FEW = 3
"""Lists of at most this many figures are shown with their ranges."""

Results = dict[str, dict[str, dict[str, Any]]]
"""Verdict, paper's and measured figures and short curves, by experiment and seed."""

KINDS = "verdicts|verdict|figures|matrix|columns|series"
BLOCK = re.compile(rf"(<!-- ({KINDS})(?:: ([^:>]+))?(?:: ([^>]+))? -->\n).*?(<!-- end -->)", re.S)


def merged(results: Results, outcomes: Sequence[Mapping[str, Any]]) -> Results:
    """The results with these outcomes added; experiments that no longer exist are dropped."""
    found = {name: dict(by_seed) for name, by_seed in results.items() if name in EXPERIMENTS}
    for outcome in outcomes:
        if outcome["name"] in EXPERIMENTS:
            kept = {key: _rounded(outcome[key]) for key in ("holds", "paper", "measured")}
            kept["series"] = {s["label"]: [_rounded(s["x"]), _rounded(s["y"])] for s in _short(outcome["series"])}
            found.setdefault(outcome["name"], {})[str(outcome["setup"]["seed"])] = kept
    return {name: dict(sorted(found[name].items(), key=_number)) for name in EXPERIMENTS if name in found}


def written(page: str, results: Results) -> str:
    """The page with its generated blocks replaced."""
    return BLOCK.sub(lambda match: match[1] + _block(match[2], match[3], match[4], results) + match[5], page)


def _block(kind: str, name: str | None, more: str | None, results: Results) -> str:
    if kind == "verdicts":
        return _verdicts(results)
    assert name is not None, f"{kind} needs the name of an experiment"
    keys = [key.strip() for key in more.split(";")] if more else []
    by_seed = results.get(name, {})
    if not by_seed:
        return "Not run yet in this form.\n"
    makers = {"verdict": _verdict, "figures": _figures, "matrix": _matrix, "columns": _columns, "series": _curves}
    return makers[kind](by_seed, keys)


def _verdicts(results: Results) -> str:
    seeds = sorted({seed for by_seed in results.values() for seed in by_seed}, key=int)
    rows = []
    for name in EXPERIMENTS:
        verdicts = {seed: _word(run["holds"]) for seed, run in results.get(name, {}).items()}
        rows.append([f"`{name}`", *(verdicts.get(seed, "–") for seed in seeds)])
    return _table(["experiment, seed", *seeds], rows)


def _verdict(by_seed: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    yes, no = ([seed for seed, run in by_seed.items() if run["holds"] is held] for held in (True, False))
    if not no:
        return f"**Holds** with {_seeds(yes)}.\n"
    if not yes:
        return f"**Does not hold** with {_seeds(no)}.\n"
    return f"**Depends on the seed**: holds with {_seeds(yes)}, not with {_seeds(no)}.\n"


def _figures(by_seed: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    shown = _shown(by_seed)
    paper, ours = flat(shown["paper"]), flat(shown["measured"])
    names = [key for key in ours if any(key == k or key.startswith(f"{k}, ") for k in keys or shown["paper"])]
    ranges = {key: _range([flat(run["measured"]).get(key) for run in by_seed.values()]) for key in names}
    columns = {f"here, seed {FIRST}" if len(by_seed) > 1 else "here": {key: text(ours[key]) for key in names}}
    if any(paper.get(key) is not None for key in names):
        columns = {"paper": {key: text(paper.get(key)) for key in names}, **columns}
    if len(by_seed) > 1:
        columns[f"here, {len(by_seed)} seeds"] = ranges
    return _table(["", *columns], [[key, *(column[key] for column in columns.values())] for key in names])


def _matrix(by_seed: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    measured = _shown(by_seed)["measured"]
    found = _group(measured, keys[0]) if len(keys) == 1 else {key: measured[key] for key in keys}
    rows = {name: flat(row) if isinstance(row, Mapping) else {"": row} for name, row in found.items()}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    return _table(["", *columns], [[name, *(text(row.get(c)) for c in columns)] for name, row in rows.items()])


def _group(measured: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if key.endswith("]"):
        outer, inner = key[:-1].split("[")
        return {name: group[inner] for name, group in measured[outer].items()}
    found: Mapping[str, Any] = measured[key]
    return found


def _columns(by_seed: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    measured = _shown(by_seed)["measured"]
    names = list(dict.fromkeys(name for key in keys for name in measured[key]))
    return _table(["", *keys], [[name, *(text(measured[key].get(name)) for key in keys)] for name in names])


def _curves(by_seed: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    series = _shown(by_seed)["series"]
    chosen = {label: series[label] for label in keys or series}
    places = next(iter(chosen.values()))[0]
    return _table(["", *map(text, places)], [[label, *map(text, y)] for label, (_, y) in chosen.items()])


def _shown(by_seed: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return by_seed.get(FIRST) or next(iter(by_seed.values()))


def flat(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Nested figures as one level.

    >>> flat({"delay": {"fifo": 1}, "runs": 2})
    {'delay, fifo': 1, 'runs': 2}
    """
    found: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            found.update({f"{key}, {inner}": leaf for inner, leaf in flat(value).items()})
        else:
            found[key] = value
    return found


def text(value: Any) -> str:
    """A figure as it is written in a table.

    >>> text(0.12345), text(12345.6), text(True), text([1.0, None]), text(float("inf"))
    ('0.123', '12,346', 'yes', '1, –', '∞')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return _word(value)
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            return "∞" if value > 0 else "−∞"
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return shown.replace("-", "−", 1) if shown.startswith("-") else shown
    if isinstance(value, list | tuple):
        return ", ".join(text(part) for part in value)
    return str(value)


def _range(values: Sequence[Any]) -> str:
    """The lowest and the highest of some figures; of conditions, how often they are met."""
    if any(isinstance(value, bool) for value in values):
        return f"{sum(value is True for value in values)} of {len(values)}"
    if all(isinstance(value, list) and 0 < len(value) <= FEW for value in values):
        return ", ".join(_range(several) for several in zip(*values, strict=True))
    if not all(isinstance(value, int | float) for value in values):
        return "the same" if all(value == values[0] for value in values) else "–"
    low, high = text(float(min(values))), text(float(max(values)))
    return low if low == high else f"{low} to {high}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


def _short(series: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [curve for curve in series if len(curve["x"]) <= POINTS]


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])


def _seeds(seeds: Sequence[str]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"seeds {', '.join(seeds[:-1])} and {seeds[-1]}"


def _word(holds: bool) -> str:
    return "yes" if holds else "no"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _compact(results: Results) -> str:
    """JSON with a line for each run."""
    experiments = []
    for name, by_seed in results.items():
        runs = [f"  {json.dumps(seed)}: {json.dumps(run, ensure_ascii=False)}" for seed, run in by_seed.items()]
        experiments.append(json.dumps(name) + ": {\n" + ",\n".join(runs) + "\n}")
    return "{\n" + ",\n".join(experiments) + "\n}\n"


def main(arguments: Sequence[str]) -> None:
    folder, *files = map(Path, arguments)
    stored = folder / RESULTS
    results: Results = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    for file in files:
        read = json.loads(file.read_text(encoding="utf-8"))
        results = merged(results, read if isinstance(read, list) else [read])
    stored.write_text(_compact(results), encoding="utf-8")
    page = folder / PAGE
    page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
