"""One look for every figure: legible in colour, in grey print and to colour-blind readers.

Colours are those of Okabe and Ito (2008, "Color Universal Design"). A series is never told apart by colour alone: each
role below also has its own line style and marker. Fonts are embedded (PDF type 42; SVG text as outlines, so that a
reader without the font sees the same picture). Left out on purpose: pyplot and its global state; a figure is a plain
`Figure` object.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#6b6b6b"

FULL_WIDTH = 7.0
"""Inches: the text width of a printed page."""

_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.handlelength": 2.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    # One resolution for layout and picture: text widths depend on it.
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    # A fixed salt makes the identifiers inside an SVG the same in every run.
    "svg.hashsalt": "fgrpo",
}


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str

    def line(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`, without markers unless asked for."""
        return {"color": self.color, "linestyle": self.linestyle, **more}


SERIES = (
    Look(BLUE, "-", "o"),
    Look(VERMILLION, "--", "s"),
    Look(GREEN, "-.", "^"),
    Look(PURPLE, ":", "D"),
    Look(ORANGE, (0, (5, 1, 1, 1, 1, 1)), "v"),
    Look(BLACK, (0, (1, 2)), "x"),
    Look(SKY, (0, (8, 2)), "P"),
)
"""Looks for series without a fixed role, in the order of use."""

_GAMMA = {0.0: SERIES[0], 0.5: SERIES[2], 1.0: SERIES[1], 2.0: SERIES[3]}


def gamma_look(gamma: float) -> Look:
    """The look of a focal exponent: the same in every figure for 0, 0.5, 1 and 2."""
    return _GAMMA.get(float(gamma), SERIES[4])


@contextmanager
def applied() -> Iterator[None]:
    """The style, for the making and the saving of a figure; matplotlib's settings are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_RC)
        yield


def panels(columns: int, rows: int = 1, *, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """A figure of full width with `rows` x `columns` panels, each row `height` inches high; panels in reading order."""
    figure = Figure(figsize=(FULL_WIDTH, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def patch(color: str) -> Patch:
    """A filled square for a legend of bars."""
    return Patch(facecolor=color)


def letter(axes: list[Axes], titles: list[str]) -> None:
    """Title the panels (a), (b), ... in order."""
    for index, (panel, title) in enumerate(zip(axes, titles, strict=True)):
        panel.set_title(f"({chr(ord('a') + index)}) {title}")


def log2_axis(panel: Axes, label: str = "group size N") -> None:
    """A logarithmic x axis of group sizes with powers of two written out."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(label)
