"""The register of figures, and how one is written to disk.

A figure is two functions: `numbers(results)` computes everything that will be drawn, as plain lists and numbers, and
`paint(numbers)` draws those and nothing else. So the JSON beside a picture is the picture's content, and a test that
recomputes the numbers has checked the picture. The same inputs give the same bytes in every format: no timestamp, a
fixed identifier salt.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fgrpo_theory.foundation.checks import as_choice
from fgrpo_theory.foundation.files import atomic_file, output_folder, write_json
from fgrpo_theory.foundation.provenance import commit, config_hash

from . import style
from .inputs import PUBLISHED, SOURCES, MissingResult, Results, digest

Numbers = dict[str, Any]

FORMATS = ("png", "svg", "pdf")

# What each writer would otherwise stamp with the time or the version of the day.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


@dataclass(frozen=True)
class Entry:
    """A registered figure."""

    name: str
    title: str
    caption: str
    alt: str
    """What a reader who cannot see the picture should know."""
    source: str
    """The paper's figure number, or "ours"."""
    needs: tuple[str, ...]
    """Result tables, by their names in inputs.SOURCES."""
    published: tuple[str, ...]
    """Published tables that are drawn."""
    numbers: Callable[[Results], Numbers]
    paint: Callable[[Numbers], Figure]

    def make(self, results: Results) -> tuple[Figure, Numbers]:
        """The figure and its numbers. Raises MissingResult naming the command that makes a missing table."""
        self.require(results)
        numbers = self.numbers(results)
        with style.applied():
            figure = self.paint(numbers)
            # Lay out once, or every format would do it again.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        return figure, numbers

    def require(self, results: Results) -> None:
        """Raise MissingResult unless every table that the figure needs exists."""
        missing = results.missing(self.needs)
        if missing:
            commands = " and ".join(dict.fromkeys(f"`{SOURCES[name].command}`" for name in missing))
            files = ", ".join(str(results.path(name)) for name in missing)
            raise MissingResult(f"{self.name} needs {files}; {commands} makes it")

    def inputs(self, results: Results) -> dict[str, str]:
        """Every file that the figure is made from, with its digest."""
        inputs = {SOURCES[name].path: results.digest(name) for name in self.needs}
        inputs |= {f"published/{name}.csv": digest(PUBLISHED / f"{name}.csv") for name in self.published}
        return inputs

    def config_hash(self, results: Results) -> str:
        """Twelve hexadecimal digits that name the figure and what it is made from."""
        return config_hash({"figure": self.name, "inputs": self.inputs(results)})

    def record(self, results: Results, numbers: Numbers) -> dict[str, Any]:
        """What is written beside the picture."""
        return {
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "source": self.source,
            "inputs": self.inputs(results),
            "config_hash": self.config_hash(results),
            "commit": commit(),
            "numbers": numbers,
        }


REGISTRY: dict[str, Entry] = {}


def register(
    name: str,
    *,
    title: str,
    caption: str,
    alt: str,
    source: str,
    numbers: Callable[[Results], Numbers],
    paint: Callable[[Numbers], Figure],
    needs: Sequence[str] = (),
    published: Sequence[str] = (),
) -> Entry:
    """Add a figure to the register; names are unique and every need is a known source."""
    if name in REGISTRY:
        raise ValueError(f"name must be a new figure, got name={name!r}")
    for need in needs:
        as_choice("needs", need, tuple(SOURCES))
    REGISTRY[name] = Entry(name, title, caption, alt, source, tuple(needs), tuple(published), numbers, paint)
    return REGISTRY[name]


def entry(name: str) -> Entry:
    """The figure of that name. Raises ValueError naming the known ones."""
    return REGISTRY[as_choice("figure", name, tuple(sorted(REGISTRY)))]


def to_bytes(figure: Figure, form: str) -> bytes:
    """The picture in one format; equal figures give equal bytes."""
    as_choice("format", form, FORMATS)
    buffer = io.BytesIO()
    with style.applied():
        figure.savefig(buffer, format=form, metadata=_METADATA[form])
    return buffer.getvalue()


def draw(name: str, results: Results, out: Path | str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write NAME.<format> for every format and NAME.json (numbers, inputs, hash, commit) into `out`; return the paths.

    Every file appears whole or not at all. Raises ValueError for an unknown figure or format or a folder that
    cannot be written to, MissingResult for a missing table.
    """
    chosen = entry(name)
    for form in formats:
        as_choice("format", form, FORMATS)
    folder = output_folder(out)
    figure, numbers = chosen.make(results)
    paths = []
    for form in formats:
        paths.append(folder / f"{name}.{form}")
        with atomic_file(paths[-1], "wb") as file:
            file.write(to_bytes(figure, form))
    paths.append(folder / f"{name}.json")
    write_json(paths[-1], chosen.record(results, numbers))
    return paths
