"""How SQL writes functions that are operators: the sign between, before or after their arguments."""

from __future__ import annotations

from collections.abc import Mapping

INFIX: Mapping[str, str] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "div": "DIV",
    "mod": "%",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq_null_safe": "<=>",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "rlike": "RLIKE",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
}
PREFIX: Mapping[str, str] = {"not": "NOT ", "negative": "-", "bitnot": "~"}
SUFFIX: Mapping[str, str] = {
    "is_null": " IS NULL",
    "is_not_null": " IS NOT NULL",
    "is_true": " IS TRUE",
    "is_false": " IS FALSE",
    "is_not_true": " IS NOT TRUE",
    "is_not_false": " IS NOT FALSE",
}
