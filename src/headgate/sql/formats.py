"""What the options of sources, sinks and clauses may be: unknown, missing and wrong ones are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.sql.errors import Script, closest
from headgate.sql.statements import Name, Option


@dataclass(frozen=True)
class Format:
    """The options of one format. `needed` holds groups of which one option must be given; `open` are free prefixes."""

    options: frozenset[str]
    needed: tuple[tuple[str, ...], ...] = ()
    open: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] | None = None


_FILE_SOURCE = {"path", "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge", "cleanSource"}
_FILE_SOURCE |= {"sourceArchiveDir", "fileNameOnly", "pathGlobFilter", "recursiveFileLookup", "maxCachedFiles"}
_FILE_SOURCE |= {"modifiedBefore", "modifiedAfter", "ignoreCorruptFiles", "ignoreMissingFiles", "mergeSchema"}
_TEXTUAL = {"encoding", "lineSep", "compression", "dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone"}
_TEXTUAL |= {"mode", "columnNameOfCorruptRecord", "locale"}
_JSON = {"multiLine", "primitivesAsString", "prefersDecimal", "allowComments", "allowUnquotedFieldNames"}
_JSON |= {"allowSingleQuotes", "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter", "dropFieldIfAllNull"}
_JSON |= {"allowUnquotedControlChars", "allowNonNumericNumbers", "ignoreNullFields", "samplingRatio"}
_CSV = {"sep", "delimiter", "header", "quote", "escape", "comment", "nullValue", "emptyValue", "multiLine", "nanValue"}
_CSV |= {"ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "enforceSchema", "maxColumns", "maxCharsPerColumn"}
_CSV |= {
    "positiveInf",
    "negativeInf",
    "charToEscapeQuoteEscaping",
    "unescapedQuoteHandling",
    "quoteAll",
    "escapeQuotes",
}
_KAFKA = {"subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp"}
_KAFKA |= {"startingOffsetsByTimestamp", "failOnDataLoss", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"}
_KAFKA |= {
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "value_format",
}
_KAFKA |= {"kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"}
_PARQUET = {"compression", "datetimeRebaseMode", "int96RebaseMode"}
_VALUE_FORMATS = ("json", "csv", "text", "raw")

SOURCES: dict[str, Format] = {
    "kafka": Format(
        frozenset(_KAFKA),
        (("kafka.bootstrap.servers",), ("subscribe", "subscribePattern", "assign")),
        ("kafka.",),
        {"value_format": _VALUE_FORMATS},
    ),
    "json": Format(frozenset(_FILE_SOURCE | _TEXTUAL | _JSON), (("path",),)),
    "csv": Format(frozenset(_FILE_SOURCE | _TEXTUAL | _CSV), (("path",),)),
    "parquet": Format(frozenset(_FILE_SOURCE | _PARQUET), (("path",),)),
    "orc": Format(frozenset(_FILE_SOURCE | {"compression"}), (("path",),)),
    "text": Format(frozenset(_FILE_SOURCE | {"wholetext", "lineSep", "encoding", "compression"}), (("path",),)),
    "rate": Format(frozenset({"rowsPerSecond", "rampUpTime", "numPartitions"})),
    "rate-micro-batch": Format(
        frozenset({"rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"}), (("rowsPerBatch",),)
    ),
    "socket": Format(
        frozenset({"host", "port", "includeTimestamp", "value_format"}),
        (("host",), ("port",)),
        (),
        {"value_format": _VALUE_FORMATS},
    ),
}

_FILE_SINK = {"path", "partitionBy", "mode", "maxRecordsPerFile"}
SINKS: dict[str, Format] = {
    "kafka": Format(
        frozenset({"topic", "value_format", "key", "includeHeaders"}),
        (("topic",), ("kafka.bootstrap.servers",)),
        ("kafka.",),
        {"value_format": _VALUE_FORMATS},
    ),
    "json": Format(frozenset(_FILE_SINK | _TEXTUAL | _JSON), (("path",),)),
    "csv": Format(frozenset(_FILE_SINK | _TEXTUAL | _CSV), (("path",),)),
    "parquet": Format(frozenset(_FILE_SINK | _PARQUET), (("path",),)),
    "orc": Format(frozenset(_FILE_SINK | {"compression"}), (("path",),)),
    "text": Format(frozenset(_FILE_SINK | {"lineSep", "compression"}), (("path",),)),
    "console": Format(frozenset({"numRows", "truncate"})),
    "memory": Format(frozenset()),
    "noop": Format(frozenset()),
    "callback": Format(frozenset({"function"})),
}

TABLES: dict[str, Format] = {
    name: Format(SOURCES[name].options, SOURCES[name].needed) for name in ("json", "csv", "parquet", "orc", "text")
}

# What can replace a row that it was given before. Files cannot, nor can tables that only append.
UPDATING = frozenset({"console", "memory", "callback", "kafka", "noop"})


def read_options(
    options: tuple[Option, ...], format_: Name, known: Mapping[str, Format], what: str, script: Script
) -> dict[str, str]:
    """The options of a source, a sink or a table, checked where we know the format; any other is Spark's to check."""
    given = unique(options, script)
    rules = known.get(format_.text.lower())
    if rules is None:
        return given
    for option in options:
        _check_known(option, format_, rules, what, script)
    lower = {key.lower() for key in given}
    for group in rules.needed:
        if not any(name.lower() in lower for name in group):
            wanted = " or ".join(group)
            raise script.error(f"{what} {format_.text} needs the option {wanted}", format_.at)
    return given


def unique(options: tuple[Option, ...], script: Script) -> dict[str, str]:
    """Options by name, each given once."""
    given: dict[str, str] = {}
    seen: set[str] = set()
    for option in options:
        if option.key.text.lower() in seen:
            raise script.error(f"option {option.key.text} is given twice", option.key.at)
        seen.add(option.key.text.lower())
        given[option.key.text] = option.value
    return given


def _check_known(option: Option, format_: Name, rules: Format, what: str, script: Script) -> None:
    key = option.key.text
    names = {name.lower(): name for name in rules.options}
    if any(key.lower().startswith(prefix) for prefix in rules.open):
        return
    if key.lower() not in names:
        others = [*rules.options, *(name for group in rules.needed for name in group)]
        raise script.error(f"{what} {format_.text} has no option {key}{closest(key, others)}", option.key.at)
    allowed = (rules.values or {}).get(names[key.lower()])
    if allowed is not None and option.value.lower() not in allowed:
        message = f"{key} is {option.value}; it may be {', '.join(allowed)}"
        raise script.error(message, option.value_at)
