"""One table of the studies: every arm at equal steps and at equal mu, with intervals, each seed, and less GRPO.

A row is a study, an arm and a quantity: pass@k, mu and M_ret at the last step (held-out problems), M_ret at equal mu (the
mean over the levels that all arms of a seed reach, training and held-out prompts), and the rise of the rare answers' NLL in
nats a token (appendix M.2). Intervals are those of figures/studies.py: bootstraps over seeds and problems for pass@k, mu
and M_ret, Student's t over seeds for the others. `fgrpo figures studies --csv` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fgrpo_theory.foundation.files import read_json

from .inputs import Results
from .studies import PLAIN, START, Floats, Numbers, Study, pass_at_k, rows_of, spread, studies
from .study_masses import SPLIT_LABEL, SPLITS, heldout_masses, mean_at_equal_mu, probed

Row = dict[str, object]

SHOWN_KS = (1, 4, 16, 64, 256)

EQUAL_MU = {split: f"M_ret at equal mu, {label}" for split, label in SPLIT_LABEL.items()}
RARE = "rise of rare NLL"


def quantities(results: Results, study: Study) -> Iterator[tuple[str, list[int], dict[str, Floats]]]:
    """Each quantity's name, the seeds it has, and its values[seed, problem] (or [seed]) by arm; the start where it has one."""
    curves = pass_at_k(results, study)
    for k in (k for k in SHOWN_KS if k in curves.ks):
        yield f"pass@{k}", list(study.seeds), {arm: curves.at(arm, k) for arm in curves.values}
    masses = heldout_masses(results, study)
    if masses is not None:
        for name, values in masses.items():
            yield name, list(study.seeds), values
    if probed(results, study):
        for split in SPLITS:
            seeds, means = mean_at_equal_mu(results, study, split)
            if seeds:
                yield EQUAL_MU[split], seeds, means
    yield RARE, list(study.seeds), {arm: rare_rises(results, study, arm)[:, 0] for arm in study.arms}


def rare_rises(results: Results, study: Study, arm: str) -> Floats:
    """Rise, low and high (bootstrap over prompts) of the rare answers' NLL, a seed a row."""
    table = rows_of(results["study_summary"], study=study.name, arm=arm)
    rows = [rows_of(table, seed=seed) for seed in study.seeds]
    return np.array([[float(row[name][0]) for name in ("rare_rise", "rare_low", "rare_high")] for row in rows])


def table_rows(results: Results) -> list[Row]:
    """The table's rows. Raises MissingResult without a study."""
    return [
        _row(study, arm, name, seeds, values)
        for study in studies(results)
        for name, seeds, values in quantities(results, study)
        for arm in (START, *study.arms)
        if arm in values
    ]


def _row(study: Study, arm: str, name: str, seeds: list[int], values: dict[str, Floats]) -> Row:
    own = spread(values[arm])
    other: Numbers = {"mean": None, "low": None, "high": None, "seeds": []}
    if arm not in (PLAIN, START) and PLAIN in values:
        other = spread(values[arm] - values[PLAIN])
    return {
        "study": study.name,
        "task": study.task,
        "arm": arm,
        "quantity": name,
        "mean": own["mean"],
        "low": own["low"],
        "high": own["high"],
        "seeds": "" if arm == START else _join(seeds, "d"),
        "by_seed": "" if arm == START else _join(own["seeds"], ".4f"),
        "less_grpo": other["mean"],
        "less_grpo_low": other["low"],
        "less_grpo_high": other["high"],
        "less_grpo_by_seed": _join(other["seeds"], "+.4f"),
    }


def _join(values: list[int] | list[float], form: str) -> str:
    return " ".join(format(value, form) for value in values)


def settings_rows(results: Results) -> list[dict[str, object]]:
    """What each study was, from its study.json and what its runs recorded; the model by the last part of its name.

    A study whose study.json was not kept has no row.
    """
    rows: list[dict[str, object]] = []
    for study in studies(results):
        folder = results.root / "llm" / study.name
        if not (folder / "study.json").is_file():
            continue
        kept = read_json(folder / "study.json")
        base, measured = kept["base"], kept["measurement"]
        records = [folder / run / "provenance.json" for run in study.runs.values()]
        commits = sorted({read_json(path)["commit"] for path in records if path.is_file()})
        rows.append(
            {
                "study": study.label,
                "model": Path(base["model"]["source"]).name,
                "arms": ", ".join(study.arms),
                "seeds": _join(list(study.seeds), "d"),
                "N": base["sampling"]["group_size"],
                "prompts a step": base["prompts_per_step"],
                "steps": base["steps"],
                "learning rate": base["optimizer"]["learning_rate"],
                "answers a problem": measured["samples"],
                "commits": ", ".join(commits),
            }
        )
    return rows


def report_rows(results: Results) -> list[dict[str, str]]:
    """The table for readers: a row a study and arm, a column a quantity, as "mean [low, high] (each seed)"."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    found = table_rows(results)
    names = list(dict.fromkeys(str(row["quantity"]) for row in found))
    for row in found:
        key = str(row["study"]), str(row["arm"])
        kept = rows.setdefault(key, {"study": key[0], "arm": key[1], **dict.fromkeys(names, "-")})
        kept[str(row["quantity"])] = _cell(row)
    return list(rows.values())


def _cell(row: Row) -> str:
    limits = "" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
    seeds = " ".join(f"{float(value):.3f}" for value in str(row["by_seed"]).split())
    return f"{row['mean']:.3f}{limits}" + (f" ({seeds})" if seeds else "")
