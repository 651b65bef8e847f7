"""Puts a mutated function into a running process: its code object is exchanged in every live function that was made of the original.

No file is touched and nothing is imported again, so decorators, registries and names that others imported stay as they are.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


def live_functions(paths: list[Path]) -> dict[tuple[str, str], list[FunctionType]]:
    """Every function of these files that exists now, by (path, qualified name)."""
    wanted = {str(path.resolve()): str(path) for path in paths}
    found: dict[tuple[str, str], list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in wanted and "<" not in one.__code__.co_qualname:
            found.setdefault((wanted[one.__code__.co_filename], one.__code__.co_qualname), []).append(one)
    return found


def code_of(source: str, path: str, function: str) -> CodeType:
    """The code of a function as this source would have it. Raises `LookupError`."""
    for code in _within(compile(source, str(Path(path).resolve()), "exec", dont_inherit=True)):
        if code.co_qualname == function:
            return code
    raise LookupError(f"{path} has no function {function}")


def _within(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _within(inner)


def swap(functions: list[FunctionType], code: CodeType) -> None:
    """From now on these functions run that code."""
    for one in functions:
        one.__code__ = code
