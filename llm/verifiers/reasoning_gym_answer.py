"""Scores an answer to a reasoning-gym problem with the library's own scorer. Runs in a verifier worker.

The gold is the library's entry (question, answer, metadata); a score of at least `threshold` is a success.
Some of its scorers evaluate the answer (`eval`, or sympy's parse_expr, which evaluates). Model text is never run here:
before the library is loaded, parse_expr is wrapped so that only plain arithmetic and function calls on names pass, and
those modules get `ast.literal_eval` for `eval`. What does not pass is an answer that the scorer cannot read.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

# Scorers that call eval on the answer.
_EVALUATING = (
    "reasoning_gym.algorithmic.binary_matrix",
    "reasoning_gym.algorithmic.spiral_matrix",
    "reasoning_gym.algorithmic.string_insertion",
    "reasoning_gym.games.n_queens",
)
_PLAIN_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.UAdd, ast.USub,
)  # fmt: skip
_FUNCTIONS = frozenset(
    (
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "ln",
        "sqrt",
    )
)
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def is_plain_expression(text: str) -> bool:
    """Only numbers, names, operators, and calls of elementary functions.

    >>> is_plain_expression("x**2 + sin(3*x)"), is_plain_expression("(1).__class__"), is_plain_expression("open('f')")
    (True, False, False)
    """
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, _PLAIN_NODES)
        and (not isinstance(node, ast.Constant) or isinstance(node.value, int | float))
        and (not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS))
        and (not isinstance(node, ast.Name) or not node.id.startswith("_"))
        for node in nodes
    )


def extract(text: str, form: str) -> str | None:
    """The answer in a completion: "tags", the last <answer>...</answer>; "whole", all of it. None without one."""
    if form == "whole":
        return text.strip() or None
    found = _TAG.findall(text)
    return found[-1].strip() if found else None


def make_grader(form: str, threshold: float) -> Callable[[dict[str, Any], str], tuple[bool, float, str]]:
    """A grader for entries that carry their dataset's name in metadata; form: see `extract`."""
    _guard()
    import reasoning_gym

    scorers: dict[str, Any] = {}

    def grade(gold: dict[str, Any], text: str) -> tuple[bool, float, str]:
        answer = extract(text, form)
        if answer is None:
            return False, 0.0, "no answer"
        name = gold["dataset"]
        if name not in scorers:
            scorers[name] = reasoning_gym.create_dataset(name, size=1, seed=0, **gold["options"])
        score = float(scorers[name].score_answer(answer=answer, entry=gold["entry"]))
        return score >= threshold, score, "" if score >= threshold else "different"

    return grade


def _guard() -> None:
    """Replace what would evaluate model text, before any scorer binds it."""
    import sympy
    from sympy.parsing import sympy_parser

    original = sympy_parser.parse_expr

    @functools.wraps(original)
    def plain_only(text: str, *arguments: Any, **options: Any) -> Any:
        if not is_plain_expression(text):
            raise SyntaxError("only plain expressions are read")
        return original(text, *arguments, **options)

    for module in (sympy, sympy_parser, importlib.import_module("sympy.parsing")):
        setattr(module, "parse_expr", plain_only)  # noqa: B010
    # A library that was imported earlier has bound the original.
    for name, module in list(sys.modules.items()):
        if name.startswith("reasoning_gym.") and getattr(module, "parse_expr", None) is original:
            setattr(module, "parse_expr", plain_only)  # noqa: B010
    for name in _EVALUATING:
        # A module's global shadows the builtin of the same name.
        importlib.import_module(name).eval = ast.literal_eval  # type: ignore[attr-defined]
