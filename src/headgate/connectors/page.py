"""The page docs/connectors.md, made from the connectors' declarations.

`python -m headgate.connectors.page > docs/connectors.md` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.connectors.contract import Connector, ResultSink
from headgate.connectors.registry import sinks, sources, tables
from headgate.connectors.spark_format import SparkFormatSink
from headgate.graph.options import OptionDeclaration, OptionSet

_TYPES = {
    "text": "text",
    "integer": "whole number",
    "boolean": "true, false",
    "time": "time, as `90s`, `1h`",
    "character": "character",
    "columns": "columns",
    "length": "true, false, number",
}
_INTRODUCTION = """# Sources, tables and sinks

`python -m headgate.connectors.page > docs/connectors.md` writes this page from the declarations in
`src/headgate/connectors`; a test checks that it is current.

Names of options and formats are case-insensitive. An option that is not listed is refused when a script is checked,
with its position and, where it helps, the reason. Any other format of Spark's may be named as well; Spark then checks
its options.

`${env:NAME}` in the value of an option stands for a variable of the driver's environment, so that no script has to hold
a password: `password '${env:PG_PASSWORD}'`. Passwords, keys and tokens are in no log, message, `explain` or checkpoint;
where options are shown, they are `***`.

A Kafka cluster that does not answer within 15 seconds, a topic that is missing and a wrong password are reported when
the engine starts. A value that cannot be read (JSON, CSV, Avro) is a dead letter of its stream; the rows around it are
read. Bytes in a text that are not UTF-8 become U+FFFD, in dead letters too. If a sink fails, its results stay in the
checkpoint and are published at the next start.

Streams of one kind, columns and options are read as one source, which saves time with many streams: topics, or folders
of which none is in another. Two streams of one topic or folder are read twice.

Delta and Iceberg need their jars and settings from the start of the session. Headgate gives them to a session that it
starts for a script with `INTO delta`, `USING iceberg` and so on: Maven fetches the jars for the running Spark. If the
format is not published for it, one line names the newest Spark for which it is. A session that you start needs the
jars, and for Delta `spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension` and
`spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog`.

The `table` of an Iceberg connector is a name in a catalog that you set in Spark's configuration (`spark-defaults.conf`,
or a session that you start): `lake.db.totals` with `spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog` and
`spark.sql.catalog.lake.type`. A `path` needs no catalog, but a file system that renames atomically: in an object store,
use a catalog.

Each epoch of an Iceberg sink adds a snapshot, which names the epoch. Remove old snapshots regularly, for example with
`CALL lake.system.expire_snapshots('db.totals')`, since every commit writes the list of all. Headgate finds the last
epoch after a restart in the snapshots: keep those that are younger than the longest time for which it may be stopped
(by default five days are kept); otherwise the last epoch may be written a second time.

A new source or sink is one module in `src/headgate/connectors` with one class, which declares its name, options and
guarantee, and reads or writes; the checker, this page and the tests find it there.
"""
_GUARANTEES = """A sink that *replaces rows* accepts queries without a window, whose later results replace earlier ones.
After a crash the results of the last epochs are published again; a sink with *exactly once* then still holds them once.

*Written by* names the processes that write: the *hosts*, in which the results are made; Spark's *executors*, which read
them from the checkpoint; or the *driver*. Rows pass the driver only where it writes, and, for `engine.results`, the
newest rows of each epoch. A host stages files in `<path>/.headgate/`, where readers do not look, and the driver moves
them when their epoch is committed (in an object store: copies them there). Staged files that were never committed are
removed. If a host cannot write a folder, for example because `path` is on the driver's own disk, the driver writes it.
"""


_ABOUT_GUARANTEES = """State is exactly once: the commit of an epoch names what was read, the state and the results. The
table says what that means for each source and sink, and which test shows it.
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, "## Guarantees\n", _ABOUT_GUARANTEES, _guarantees(), ""]
    parts += ["## Sinks: `INTO …`\n", _GUARANTEES, _sinks(sinks().values()), "", _other_sinks(), ""]
    parts += [part for sink in sinks().values() for part in _section(sink, "INTO")]
    parts += ["## Sources of streams: `CREATE STREAM … USING …`\n"]
    parts += [part for source in sources().values() for part in _section(source, "USING")]
    parts += ["## Static tables: `CREATE TABLE … USING …`\n"]
    parts += [part for table in tables().values() for part in _section(table, "USING")]
    return "\n".join(parts).rstrip() + "\n"


def _guarantees() -> str:
    rows = ["| | after crashes | shown by |", "| --- | --- | --- |"]
    others: dict[str, ResultSink] = {**sinks(), "any other format": SparkFormatSink("")}
    for word, found in (("USING", sources()), ("INTO", others)):
        for name, each in found.items():
            guarantee = each.guarantee
            lost = guarantee.means if "at most once" in guarantee.means else str(guarantee)
            called = f"`{word} {name}`" if name in sources() or name in sinks() else f"`{word}` {name}"
            rows.append(f"| {called} | {lost} | `{guarantee.test}` |")
    return "\n".join(rows)


def _sinks(found: Iterable[ResultSink]) -> str:
    rows = ["| sink | what it is | replaces rows | written by | guarantee |", "| --- | --- | --- | --- | --- |"]
    for sink in found:
        replaces = "yes" if sink.replaces_rows else "no"
        rows.append(f"| `{sink.name}` | {sink.about} | {replaces} | {sink.written_by} | {sink.guarantee} |")
    return "\n".join(rows)


def _other_sinks() -> str:
    options = ", ".join(f"`{option.name}`" for option in SparkFormatSink.options.declared)
    return (
        f"Spark's executors write any other format ({options} and the options of the format): exactly once"
        "\ninto a folder, where each epoch of a query overwrites its own subfolder `epoch=<run>-<query>-<n>`; at least"
        " once\ninto a table or elsewhere."
    )


def _section(connector: Connector, word: str) -> list[str]:
    title = f"### `{word} {connector.name}`\n"
    about = f"{connector.about[0].upper()}{connector.about[1:]}.\n"
    parts = [title, about]
    if connector.options.declared:
        parts += [_options(connector.options), ""]
    if connector.options.prefixes:
        passed = " and ".join(f"`{prefix}…`" for prefix in connector.options.prefixes)
        needed = [group for group in connector.options.one_of if len(group) == 1]
        also = "".join(f"; `{group[0]}` is needed" for group in needed)
        parts.append(f"Options {passed} are passed on as they are{also}.\n")
    if connector.options.others:
        parts.append("Other options are passed on to Spark.\n")
    return parts


def _options(options: OptionSet) -> str:
    groups = {name for group in options.one_of for name in group}
    rows = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for option in options.declared:
        needed = "needed" if option.needed else "one of these" if option.name in groups else _default(option)
        kind = ", ".join(option.choices) if option.choices else _TYPES[option.kind]
        rows.append(f"| `{option.name}` | {kind} | {needed} | {option.about} |")
    return "\n".join(rows)


def _default(option: OptionDeclaration) -> str:
    if option.default is None:
        return ""
    return f"`{option.default}`" if option.default else "empty"


if __name__ == "__main__":
    print(page(), end="")
