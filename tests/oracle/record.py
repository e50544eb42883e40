"""Records Spark's answers: `python -m tests.oracle.record FILE…` rewrites the expect parts of case files.

Read the rows that it wrote before you commit them: they are the specification. The file is stamped (`tests.recorded`),
unless Structured Streaming gives other rows for a case with `@streaming`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from headgate.spark.session import local_session
from tests.oracle import streaming
from tests.oracle.answers import Answer, wrong
from tests.oracle.cases import Case, load
from tests.oracle.spark_side import SparkRefused, SparkSide
from tests.recorded import write_stamped


def record(file: Path, spark: SparkSide) -> int:
    """Rewrites one file; gives the number of cases whose answer changed."""
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = 0
    for case in reversed(load(file)):
        try:
            answer = spark.answer(case)
            shown = case.expected if agrees(answer, case) else answer.show()
            part = ["--- expect", *(shown or "").rstrip().splitlines()]
        except SparkRefused as error:
            found = re.search(r"\[([A-Z_0-9.]+)\]", str(error))
            print(f"{file}:{case.line}: {case.name}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            part = [f"--- fails {found[1] if found else 'UNKNOWN'}"]
        end = next((i for i in range(case.line, len(lines)) if lines[i].startswith("=== ")), len(lines))
        body = lines[case.line : end]
        at = next((i for i, line in enumerate(body) if line.startswith(("--- expect", "--- fails"))), len(body))
        kept = body[:at]
        while kept and not kept[-1].strip():
            kept.pop()
        if [*kept, *part] != [line for line in body if line.strip()]:
            changed += 1
        lines[case.line : end] = [*kept, *part, *([""] if end < len(lines) else [])]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    alike = [streamed_alike(case, spark) for case in load(file)]
    if all(alike):
        write_stamped(file, file.read_text(encoding="utf-8"))
    return changed


def agrees(answer: Answer, case: Case) -> bool:
    """Whether the case already expects this answer, to its tolerance."""
    try:
        return case.expected is not None and not wrong(answer, case)
    except ValueError:
        return False


def streamed_alike(case: Case, spark: SparkSide) -> bool:
    """Whether Structured Streaming, where a case requires it, gives the expected rows; prints the difference if not."""
    if "streaming" not in case.options or case.expected is None:
        return True
    answer = streaming.answer(case, spark.session)
    if agrees(answer, case):
        return True
    print(f"{case.file}:{case.line}: {case.name}: Structured Streaming gives\n{answer.show()}", file=sys.stderr)
    return False


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit("usage: python -m tests.oracle.record FILE…")
    spark = SparkSide(local_session("headgate-record"))
    for name in arguments:
        changed = record(Path(name), spark)
        print(f"{name}: {changed} answers changed; read them before you commit")


if __name__ == "__main__":
    main(sys.argv[1:])
