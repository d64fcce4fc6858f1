"""Is a mathematical answer right? math-verify on the last box of the completion. Runs in a verifier worker.

- The last `\\boxed{...}` counts, with nested braces; without a box the last `$...$`, else the last number.
- verify(gold, prediction), in this order: math-verify is not symmetric. Gold answers need no wrapping.
- (1, 2) is not (2, 1), and no set is a tuple or an interval, though math-verify takes {1, 2} for (1, 2).
- A word is compared as a word: math-verify would read Paris as the product a i p r s, equal to Pairs.
- Its own time limits are off, because they turn a hang into "wrong": the worker is killed instead. Its plain-expression
  parser is never used, because sympy evaluates what it is given; LaTeX goes through a grammar.
No answer, or one that is no LaTeX, is wrong with a reason of its own ("no answer", "unreadable answer"); a gold that cannot
be read is unscorable, for every completion alike.
Source: public reports of graders (shared cases of this project); math-verify 0.9.
"""

from __future__ import annotations

import logging
import re
from typing import Any

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?%?")
_DOLLARS = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}")
_LONGEST = 2000


def last_box(text: str) -> str | None:
    """The content of the last complete `\\boxed{...}` (or \\fbox), braces balanced; None without one.

    >>> last_box(r"\\boxed{840} no, \\boxed{\\frac{1}{2}}")
    '\\\\frac{1}{2}'
    """
    starts = [match.end() for match in _BOX.finditer(text)]
    for start in reversed(starts):
        depth = 1
        for place in range(start, len(text)):
            escaped = place > 0 and text[place - 1] == "\\"
            if not escaped and text[place] in "{}":
                depth += 1 if text[place] == "{" else -1
                if depth == 0:
                    return text[start:place].strip()
    return None


def predicted_answer(text: str) -> str | None:
    """What the completion answers: its last box, else its last `$...$`, else its last number.

    A box that was begun and never closed, as in a truncated completion, is no answer.
    """
    box = last_box(text)
    if box is not None or _BOX.search(text):
        return box
    spans = _DOLLARS.findall(text)
    if spans:
        return str(next(part for part in spans[-1] if part)).strip()
    numbers = _NUMBER.findall(text)
    return str(numbers[-1]) if numbers else None


def gold_answer(gold: object) -> str:
    """The gold answer without its wrapping: a box, dollars, or neither. {1, 2} in plain braces is a set."""
    text = str(gold).strip()
    box = last_box(text)
    if box is not None:
        return box
    span = _DOLLARS.fullmatch(text)
    text = next(part for part in span.groups() if part).strip() if span else text
    return rf"\{text[:-1]}\}}" if text.startswith("{") and text.endswith("}") else text


def grade(gold: object, text: str) -> tuple[bool | None, float, str]:
    """(success, reward, reason) of a completion; what it raises, the worker reports as unscorable."""
    answer, wanted = predicted_answer(text), gold_answer(gold)
    word = _as_word(wanted)
    right = [] if word is not None or not wanted else _parse(wanted)
    if word is None and not right:
        return None, 0.0, "gold: cannot be read"
    if not answer:
        return _verdict(False, "no answer")
    if word is not None:
        other = _as_word(answer)
        return _verdict(other is not None and other.casefold() == word.casefold(), "different")
    given = _parse(answer) if len(answer) <= _LONGEST else []
    if not given:
        return _verdict(False, "unreadable answer")
    if {_brackets(wanted), _brackets(answer)} == {"set", "ordered"}:
        return _verdict(False, "other brackets")
    from math_verify import verify

    return _verdict(bool(verify(right, given, timeout_seconds=None, raise_on_error=True)), "different")


def _verdict(success: bool, reason: str) -> tuple[bool, float, str]:
    return success, float(success), "" if success else reason


def _parse(answer: str) -> list[Any]:
    """The sympy values of an answer; none if it cannot be read."""
    from math_verify import LatexExtractionConfig, parse

    # The notice that the library's own time limit is off would come with every worker.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    found = parse(f"${answer}$", (LatexExtractionConfig(),), parsing_timeout=None, raise_on_error=True)
    # The library adds the raw text; equal text of something unreadable is no mathematical equality.
    return [value for value in found if not isinstance(value, str)]


def _as_word(answer: str) -> str | None:
    """The answer as plain words, or None if it is mathematics (single letters are variables)."""
    plain = " ".join(_TEXT.sub(r"\1", answer).split()).rstrip(".")
    is_word = re.fullmatch(r"[A-Za-z][A-Za-z' -]{2,}", plain) is not None
    return plain if is_word else None


def _brackets(answer: str) -> str | None:
    """The kind of outer brackets of a list of at least two entries: set, or ordered."""
    bare = answer.replace(r"\left", "").replace(r"\right", "").strip()
    if "," not in bare:
        return None
    if bare.startswith(r"\{") and bare.endswith(r"\}"):
        return "set"
    return "ordered" if bare[0] in "([" and bare[-1] in ")]" else None
