"""Every command of every package: a description with an example that parses, and one spelling for the form of the output."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

import fgrpo
from fgrpo_theory.foundation.printing import add_form


def leaves(parser: argparse.ArgumentParser, words: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """(words of the command, its parser) of every command that does something itself."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, sub in action.choices.items():
            yield from leaves(sub, f"{words} {name}")
    if not below:
        yield words, parser


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The leaves of every package at the front door; `reproduce` is a package of its own."""
    for name, (module, _, _) in fgrpo.COMMANDS.items():
        if module != fgrpo.__name__:
            top = next(a for a in fgrpo.build_parser(name)._actions if isinstance(a, argparse._SubParsersAction))
            yield from leaves(top.choices[name], name)


COMMANDS = dict(commands())
each_command = pytest.mark.parametrize("command", COMMANDS)


def test_the_walk_finds_the_commands() -> None:
    assert len(COMMANDS) > 15
    assert {"theory plan", "sims crosscheck", "llm train", "figures draw"} <= set(COMMANDS)


@each_command
def test_a_description_has_an_example_that_parses(command: str) -> None:
    description = COMMANDS[command].description or ""
    before, found, after = description.partition("Example: ")
    assert found, f"fgrpo {command} --help shows no 'Example:'"
    assert before.strip().endswith("."), f"fgrpo {command} --help says nothing before its example"
    # The example ends with the description, with a full stop, or with a remark in brackets.
    example = re.split(r"\. | \(|\.$", after)[0]
    words = shlex.split(example)
    assert words[: 1 + len(command.split())] == ["fgrpo", *command.split()], example
    fgrpo.build_parser(words[1]).parse_args(words[1:])


@each_command
def test_the_form_of_the_output_has_one_spelling(command: str) -> None:
    flags = {flag for action in COMMANDS[command]._actions for flag in action.option_strings}
    assert not flags & {"--form", "--format"}
    assert ("--json" in flags) == ("--csv" in flags)


def test_forms_exclude_each_other() -> None:
    parser = fgrpo.Parser()
    add_form(parser)
    assert [parser.parse_args(words).form for words in ([], ["--json"], ["--csv"])] == ["table", "json", "csv"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", "--csv"])
