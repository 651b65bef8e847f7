"""The mutants of one file: Cosmic Ray's operators, and two of our own that take out what guards and what writes.

Only what runs inside a function is mutated, and only where it can matter: no annotation, no decorator, no wording. Of the many ways to
replace one operator at one place (`==` by `<`, `>=`, `is` …) one is chosen, so that easy kills do not make the figure look better.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso import parse

LEFT_OUT = ("NoOp", "RemoveDecorator", "VariableReplacer", "VariableInserter")


@dataclass(frozen=True)
class Place:
    """Where an operator can strike: its `occurrence`, and the first and last line."""

    operator: str
    occurrence: int
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def family(self) -> str:
        return self.operator.partition("_")[0]


@dataclass(frozen=True)
class Mutant:
    """One fault. `function` is the outermost function it stands in, `lines` are those whose tests may notice it."""

    path: str
    function: str
    operator: str
    lines: tuple[int, int]
    source: str
    diff: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.lines[0]} {self.operator} {hashlib.sha256(self.diff.encode()).hexdigest()[:6]}"


class _RemoveStatement(Operator):
    """A statement of this kind becomes `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "simple_stmt" and len(node.children) == 2 and self.strikes(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        nothing = parse("pass").children[0]
        nothing.prefix = node.children[0].get_first_leaf().prefix
        node.children[0] = nothing
        return node

    def strikes(self, statement: Any) -> bool:
        raise NotImplementedError

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class RemoveAct(_RemoveStatement):
    """A call for its effect, or a value written to an object, is left out."""

    def strikes(self, statement: Any) -> bool:
        first = statement.children[0] if statement.type == "expr_stmt" else statement
        return first.type == "atom_expr"


class RemoveRaise(_RemoveStatement):
    """What was refused is let through."""

    def strikes(self, statement: Any) -> bool:
        return bool(statement.type == "raise_stmt")


OURS = {"RemoveAct": RemoveAct, "RemoveRaise": RemoveRaise}


def operators() -> dict[str, type[Operator]]:
    provider = OperatorProvider()
    return {name: provider[name] for name in provider if name not in LEFT_OUT} | OURS


def places(path: Path) -> list[Place]:
    """Every place in the functions of a file where an operator can strike, one for each family of operators."""
    source = path.read_text()
    inside, ast_tree = _Inside(ast.parse(source)), get_ast(source)
    found: dict[tuple[str, tuple[int, int]], list[Place]] = {}
    for name, kind in operators().items():
        for occurrence, (start, end) in enumerate(_positions(kind(), ast_tree)):
            if inside.function_at(*start) and not inside.is_idle(*start):
                place = Place(name, occurrence, start, end)
                found.setdefault((place.family, start), []).append(place)
    return sorted((_chosen(several) for several in found.values()), key=lambda place: (place.start, place.operator))


def _positions(operator: Operator, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    yield from operator.mutation_positions(node)
    for child in getattr(node, "children", ()):
        yield from _positions(operator, child)


def _chosen(several: list[Place]) -> Place:
    return min(several, key=lambda place: hashlib.sha256(f"{place.operator} {place.start}".encode()).digest())


def sample(path: Path, number: int) -> list[Mutant]:
    """So many mutants of a file, always the same ones, spread over it; all of them with 0."""
    every = places(path)
    drawn = sorted(every, key=lambda place: hashlib.sha256(f"{path.name} {place}".encode()).digest())[: number or len(every)]
    source = path.read_text()
    inside = _Inside(ast.parse(source))
    return [_mutant(path, source, inside, place) for place in sorted(drawn, key=lambda place: (place.start, place.operator))]


def _mutant(path: Path, source: str, inside: _Inside, place: Place) -> Mutant:
    mutated = MutationVisitor.mutate_code(source, operators()[place.operator](), place.occurrence)
    changed = [
        line
        for line in difflib.unified_diff(source.splitlines(), mutated.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    lines = (inside.statement_at(place.start[0]), place.end[0])
    return Mutant(str(path), inside.function_at(*place.start), place.operator, lines, mutated, "\n".join(changed))


class _Inside:
    """What stands where in a file."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions: list[tuple[str, int, int]] = []
        self._idle: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._statements = sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)})
        self._walk(tree, "")
        for node in ast.walk(tree):
            for idle in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                if isinstance(idle, ast.expr):
                    self._idle.append(((idle.lineno, idle.col_offset), (idle.end_lineno or 0, idle.end_col_offset or 0)))

    def _walk(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.append((prefix + child.name, child.body[0].lineno, child.end_lineno or 0))
            elif isinstance(child, ast.ClassDef):
                self._walk(child, f"{prefix}{child.name}.")

    def function_at(self, line: int, column: int) -> str:
        """The qualified name of the outermost function whose body is there; empty outside."""
        return next((name for name, first, last in self._functions if first <= line <= last), "")

    def is_idle(self, line: int, column: int) -> bool:
        """Whether nothing there is ever evaluated."""
        return any(start <= (line, column) < end for start, end in self._idle)

    def statement_at(self, line: int) -> int:
        """The line on which the statement there begins."""
        return max((first for first in self._statements if first <= line), default=line)
