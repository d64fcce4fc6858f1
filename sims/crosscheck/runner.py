"""Draw every scenario once, then judge all cells, and all wrong laws, on the same draws.

Blocks of groups run on threads (the kernels hold no interpreter lock); each block has its own stream, named by its
scenario and number, so the totals are the same for any number of workers. There is no second draw: what is judged is what
was drawn first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tqdm import tqdm

from fgrpo_theory.foundation.seeds import generator

from .cells import Cell, Outcome, Suite, WrongLaw
from .scenarios import Scenario, Totals


def draw_all(scenarios: Sequence[Scenario], seed: int, workers: int, *, progress: bool = True) -> dict[str, Totals]:
    """The totals of scenarios, by their names. seed: root of all streams. workers: threads."""
    jobs = [(scenario, block, groups) for scenario in scenarios for block, groups in enumerate(scenario.blocks())]
    # Costly blocks first, so that no worker is left alone with one at the end.
    jobs.sort(key=lambda job: -job[2] * job[0].cost)
    parts: dict[tuple[str, int], Totals] = {}
    with ThreadPoolExecutor(workers) as pool, tqdm(total=len(jobs), unit="block", disable=not progress) as bar:
        waiting = {pool.submit(_draw_block, seed, *job): job for job in jobs}
        for done in as_completed(waiting):
            scenario, block, _ = waiting[done]
            parts[scenario.name, block] = done.result()
            bar.update()
    return {
        scenario.name: scenario.merge([parts[scenario.name, block] for block in range(len(scenario.blocks()))])
        for scenario in scenarios
    }


def _draw_block(seed: int, scenario: Scenario, block: int, groups: int) -> Totals:
    return scenario.draw(generator(seed, f"crosscheck {scenario.name}", block), groups)


def judge_all(suite: Suite, totals: dict[str, Totals], replaced: WrongLaw | None = None) -> list[Outcome]:
    """Every cell under its law, or under the wrong law that was put in its place."""
    touched = set() if replaced is None else {cell.name for cell in cells_of(suite, replaced)}
    return [
        suite.judge(cell, totals[cell.scenario.name], replaced if cell.name in touched else None)
        for cell in suite.cells
    ]


def judge_wrong(suite: Suite, totals: dict[str, Totals], wrong_laws: Iterable[WrongLaw]) -> list[Outcome]:
    """Every wrong law in every cell where it can be evaluated."""
    return [
        suite.judge(cell, totals[cell.scenario.name], wrong) for wrong in wrong_laws for cell in cells_of(suite, wrong)
    ]


def cells_of(suite: Suite, wrong: WrongLaw) -> list[Cell]:
    """The cells in which a wrong law stands in for the right one."""
    return [cell for cell in suite.cells if cell.law == wrong.replaces and wrong.applies(cell)]


def failures(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Cells that failed: of a right law, or of a wrong one that was put in its place."""
    return [outcome for outcome in outcomes if outcome.verdict in ("fail", "killed")]


def survivors(outcomes: Sequence[Outcome]) -> list[str]:
    """Wrong laws that no cell refused."""
    names = dict.fromkeys(outcome.wrong_law for outcome in outcomes if outcome.wrong_law)
    killed = {outcome.wrong_law for outcome in outcomes if outcome.verdict == "killed"}
    return [name for name in names if name not in killed]
