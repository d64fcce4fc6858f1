"""Two small made-up studies in the shape that `fgrpo llm study` writes: `sums` lists its answers, `letters` does not.

In them RL raises pass@1, GRPO loses pass@k at the largest k, and the focal weight keeps more than both GRPO and the low
learning rate, of pass@k, of M_ret at equal mu and of the rare answers, in every seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fgrpo_theory.foundation.files import write_json, write_table

ARMS = ("grpo", "focal-0.5", "focal-1", "low-lr")
SEEDS = (0, 1, 2)
PROBLEMS = 40
SAMPLES = 16
STEPS = 12
PROBES = (0, 3, 6, 9, 12)

SOLVED = {"start": 40, "grpo": 16, "focal-0.5": 28, "focal-1": 34, "low-lr": 18}
"""Problems with a correct answer, the same in every seed up to one."""

RIGHT = {"start": 1, "grpo": 13, "focal-0.5": 12, "focal-1": 11, "low-lr": 10}
"""Correct ones of the SAMPLES answers of a solved problem."""

KEPT = {"grpo": 0.3, "focal-0.5": 0.5, "focal-1": 0.6, "low-lr": 0.35}
"""M_ret at the last probe."""

RISE = {"grpo": 4.0, "focal-0.5": 3.0, "focal-1": 2.0, "low-lr": 3.5}


def solved(arm: str, seed: int) -> int:
    """Problems that a run solves."""
    return SOLVED[arm] - (seed == 2 and arm not in ("start", "focal-1"))


def counts(arm: str, seed: int) -> dict[str, np.ndarray]:
    """counts.parquet of a run."""
    correct = np.where(np.arange(PROBLEMS) < solved(arm, seed), RIGHT[arm] + seed % 2, 0)
    return {
        "problem": np.array([f"p{index}" for index in range(PROBLEMS)]),
        "samples": np.full(PROBLEMS, SAMPLES),
        "scorable": np.full(PROBLEMS, SAMPLES),
        "correct": correct,
    }


def laws(arm: str, seed: int) -> dict[str, np.ndarray]:
    """exact.parquet of a run: two problems with a common and two rare answers each."""
    before = np.array([0.2, 0.1, 0.1])
    mass = (
        before if arm == "start" else np.array([0.9 - KEPT[arm] / 4, 0.1 * KEPT[arm], 0.05 * KEPT[arm] + 0.001 * seed])
    )
    return {
        "problem": np.repeat(["s0", "s1"], 3),
        "answer": np.tile(["a", "b", "c"], 2),
        "mass": np.concatenate([mass, mass * 0.9]),
    }


def probes(arm: str, seed: int) -> dict[str, list[float]]:
    """Probe columns: mu rises by less than 0.2 a probe, at another speed in each arm; M_ret falls linearly in mu."""
    speed = {"grpo": 1.0, "focal-0.5": 0.9, "focal-1": 0.8, "low-lr": 0.7}[arm] * (1 - 0.05 * seed)
    mu = [0.03 + 0.18 * speed * place for place in range(len(PROBES))]
    kept = [1 - (1 - KEPT[arm]) * (value - 0.03) for value in mu]
    columns: dict[str, list[float]] = {"step": list(PROBES)}
    for split, factor in (("train", 1.0), ("heldout", 0.95)):
        columns |= {
            f"mu_{split}": [0.03 + factor * (value - 0.03) for value in mu],
            f"retained_{split}": kept,
            f"unsampled_{split}": [0.02 * value for value in kept],
        }
    return columns


def dynamics(arm: str, seed: int) -> dict[str, np.ndarray]:
    """Metrics of every step; no group is active in the last steps, so the focal weight has no value there."""
    steps = np.arange(1, STEPS + 1)
    jitter = np.random.default_rng((seed, ARMS.index(arm))).random(STEPS)
    columns = {
        name: np.clip(0.5 * jitter + place * steps / 100, 0, 1)
        for place, name in enumerate(("success", "active", "all_correct", "all_wrong", "tail_miss", "entropy"))
    }
    return {
        "step": steps,
        **columns,
        "grad_norm": 1 + jitter,
        "length": 5 + jitter,
        "focal_weight": np.where(steps > STEPS - 4, np.nan, 1 - 0.4 * jitter * arm.startswith("focal")),
    }


def write_studies(root: Path, *, seeds: tuple[int, ...] = SEEDS, arms: tuple[str, ...] = ARMS) -> None:
    """Both studies under root/llm."""
    for name, task in (("letters", "letter_counting"), ("sums", "sums")):
        folder = root / "llm" / name
        runs = [("start", -1), *((arm, seed) for seed in seeds for arm in arms)]
        for arm, seed in runs:
            inside = folder / (arm if seed < 0 else f"{arm}-s{seed}") / "evaluation_heldout"
            inside.mkdir(parents=True)
            write_table(inside / "counts.parquet", counts(arm, seed))
            if name == "sums":
                write_table(inside / "exact.parquet", laws(arm, seed))
        write_json(folder / "grpo-s0/provenance.json", {"commit": "feedfacefeed"})
        _write_tables(folder, task, runs)
        write_json(folder / "study.json", _settings(seeds, arms))


def _write_tables(folder: Path, task: str, runs: list[tuple[str, int]]) -> None:
    nan = float("nan")
    rise = [nan if seed < 0 else RISE[arm] + 0.1 * seed for arm, seed in runs]
    summary = {
        "task": [task] * len(runs),
        "arm": [arm for arm, _ in runs],
        "seed": [seed for _, seed in runs],
        "run": [arm if seed < 0 else f"{arm}-s{seed}" for arm, seed in runs],
        "rare_rise": rise,
        "rare_low": [value - 0.5 for value in rise],
        "rare_high": [value + 0.7 for value in rise],
    }
    write_table(folder / "summary.parquet", summary)
    makers = {"dynamics": dynamics} | ({"probes": probes} if task == "sums" else {})
    for table, make in makers.items():
        parts = [(arm, seed, make(arm, seed)) for arm, seed in runs if seed >= 0]
        sizes = [len(part["step"]) for *_, part in parts]
        columns = {name: np.concatenate([part[name] for *_, part in parts]) for name in parts[0][2]}
        labels = {
            "task": np.repeat(task, sum(sizes)),
            "arm": np.repeat([arm for arm, *_ in parts], sizes),
            "seed": np.repeat([seed for _, seed, _ in parts], sizes),
        }
        write_table(folder / f"{table}.parquet", {**labels, **columns})


def _settings(seeds: tuple[int, ...], arms: tuple[str, ...]) -> dict[str, object]:
    return {
        "arms": list(arms),
        "seeds": list(seeds),
        "measurement": {"samples": SAMPLES},
        "base": {
            "model": {"source": "/somewhere/tiny-model"},
            "sampling": {"group_size": 8},
            "prompts_per_step": 4,
            "steps": STEPS,
            "optimizer": {"learning_rate": 1e-5},
        },
    }
