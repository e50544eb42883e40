"""Finds the Python functions that scripts name as 'module:function'."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from headgate.sql.errors import closest


def import_problem(target: str, what: str = "function") -> str | None:
    """Why `module:function` (or whatever `what` says) cannot be imported, or None if it can."""
    module_name, _, name = target.partition(":")
    if not re.fullmatch(r"[\w.]+", module_name) or not name.isidentifier():
        return f"'{target}' is not 'module:{what}'"
    try:
        module = _module(module_name)
    except Exception as error:
        return f"cannot import {module_name}: {type(error).__name__}: {error}"
    found = getattr(module, name, None)
    if found is None:
        known = [n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))]
        return f"module {module_name} has no {what.lower()} {name}{closest(name, known)}"
    if not callable(found):
        return f"{target} is a {type(found).__name__}, not a {what.lower()}"
    return None


def imported(target: str) -> Callable[..., Any]:
    """The function `module:function`, for which there is no `import_problem`."""
    module_name, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(_module(module_name), name)
    return found


def _module(name: str) -> ModuleType:
    """Imports a module, also from the working directory, as `python -m` does: functions beside a script are found."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
