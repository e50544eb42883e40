"""Sources that bring bytes or lines: how `value_format` turns them into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.contract import SourceGroup, quoted
from headgate.connectors.spark_format import check_columns
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Stream
from headgate.graph.types import STRING, Field, Schema, sql_name
from headgate.spark.source_rows import SourceRows

RAW = "_headgate_raw"
"""The column with the raw text of a row; not null in parsed rows that are malformed."""

_FORMATS = {
    "json": "a JSON object",
    "csv": "a CSV line",
    "avro": "an Avro record",
    "text": "one STRING column (text)",
}


def value_format(*choices: str) -> OptionDeclaration:
    """The option of a source that knows these formats; `raw` is the default."""
    shown = ", ".join(_FORMATS[choice] for choice in choices if choice in _FORMATS)
    return OptionDeclaration(
        "value_format",
        f"how a value becomes the declared columns: {shown}, or not at all: the columns are the source's own (raw)",
        choices=choices,
        default="raw",
    )


LINE_FORMAT = value_format("json", "csv", "text", "raw")


def value_problem(option: OptionDeclaration, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
    """A value read as text fills one STRING column."""
    if option.chosen(options) != "text" or schema.types == (STRING,):
        return None
    has = ", ".join(f"{f.name} {sql_name(f.type)}" for f in schema.fields)
    return OptionProblem(option.name, f"value_format text fills one STRING column; declared are {has}")


def parsed_row(form: str, value: str, schema: Schema) -> str:
    """Spark SQL for the struct of the columns and `RAW`, from JSON or CSV."""
    from headgate.spark.types import ddl

    whole = Schema((*schema.fields, Field(RAW, STRING)))
    settings = f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{RAW}'"
    return f"from_{form}({value}, '{quoted(ddl(whole))}', map({settings}))"


def columns_of(stream: Stream, frame: Any, value: str, group: SourceGroup) -> SourceRows:
    """The declared columns from a source's DataFrame, of which `value` is Spark SQL for the text of a row."""
    kept = [] if group.member is None else [group.member]
    match LINE_FORMAT.chosen(stream.options):
        case "raw":
            check_columns(stream, stream.source, frame, " (or add value_format 'json' to its OPTIONS)")
            return SourceRows(frame.selectExpr("*", *group.tag) if group.tag else frame, None, group.member)
        case "text":
            [column] = stream.schema.names
            return SourceRows(frame.selectExpr(f"{value} AS `{column}`", *group.tag), None, group.member)
        case form:
            parsed = frame.selectExpr(f"{parsed_row(form, value, stream.schema)} AS row", *group.tag)
            return SourceRows(parsed.selectExpr("row.*", *kept), f"`{RAW}`", group.member, valid=True)
