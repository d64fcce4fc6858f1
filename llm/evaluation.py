"""Evaluation by sampling: n answers a problem, verified, and unbiased pass@k with two intervals.

pass@k is per problem, from its scorable answers (F-GRPO, arXiv 2602.06717, eq. 27 and appendix L), and k is at most
their number; unscorable answers are counted apart and truncated ones are graded as they stand and counted too.
The two intervals answer two questions:
- bootstrap: "other problems of this kind"; percentile bootstrap over problems of the mean of per-problem pass@k;
- sampling: "these problems, other answers"; the normal interval of the exact binomial variance of pass@k, summed over
  problems, at the smoothed rate (correct + 1/2) / (scorable + 1), so that 0 correct of n has a width.
Left out on purpose: greedy decoding, and pooling of problems with unequal samples.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from fgrpo_theory import pass_at_k, pass_at_k_variance
from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.printing import Row
from fgrpo_theory.foundation.runs import RunFolder
from fgrpo_theory.foundation.seeds import generator

from .exact import exact_laws, law_columns
from .generation import group_generators, sample
from .models import LanguageModel, encode_prompt
from .rollout_batch import judged
from .rollouts import Rollouts
from .tasks.base import IdVerifier, Problem, Task, Verdict

POWERS = tuple(2**i for i in range(9))
"""k = 1, 2, 4, ..., 256."""


@dataclass(frozen=True)
class EvaluationSettings:
    """How answers are sampled."""

    samples: int = 1024
    """Answers a problem, n."""
    max_new_tokens: int = 64
    """Longest answer."""
    temperature: float = 1.0
    """Of the full softmax; no top-p or top-k, as in the paper."""
    seed: int = 0
    """Root of the sampling streams, one a problem; runs that are compared share it."""
    batch_size: int = 128
    """Answers decoded at once, of one or several problems; the result does not depend on it."""
    exact: bool = True
    """Also score every correct answer, where the task can list them."""


@dataclass(frozen=True)
class Outcome:
    """The answers to one problem, counted."""

    problem: str
    samples: int
    scorable: int
    correct: int
    unscorable: int
    truncated: int
    distinct_correct: int
    """Different correct texts."""
    mean_tokens: float
    reasons: str
    """Kinds of wrong and unscorable answers with their counts, most frequent first."""


def evaluate(
    policy: LanguageModel,
    task: Task,
    problems: Sequence[Problem],
    settings: EvaluationSettings,
    out: Path | str,
    *,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Sample, verify, count, and write a finished run folder; returns it.

    The folder holds config.json (settings and `about`), counts.parquet (an `Outcome` a problem), pass_at_k.parquet, and
    exact.parquet (problem, answer, mass) if the task has `correct_answers`. Raises FileExistsError if it exists.
    """
    with RunFolder(out, {"settings": asdict(settings), "task": task.name, **(about or {})}) as folder:
        outcomes = sample_outcomes(policy, task, problems, settings)
        folder.table("counts", columns_of([asdict(outcome) for outcome in outcomes]))
        scorable, correct = ([getattr(o, name) for o in outcomes] for name in ("scorable", "correct"))
        rows = pass_at_k_rows(scorable, correct, POWERS, seed=settings.seed)
        if rows:
            folder.table("pass_at_k", columns_of(rows))
        listed = getattr(task, "correct_answers", None)
        if settings.exact and listed is not None:
            laws = exact_laws(
                policy.model, policy.tokenizer, problems, [listed(problem) for problem in problems], policy.eos_ids,
                temperature=settings.temperature,
            )  # fmt: skip
            folder.table("exact", law_columns(laws))
    return folder.path


def sample_outcomes(
    policy: LanguageModel, task: Task, problems: Sequence[Problem], settings: EvaluationSettings
) -> list[Outcome]:
    """Draw and verify `settings.samples` answers of each problem; problem i has the stream (seed, "evaluation", i).

    Raises ValueError for no problem or settings outside their domain.
    """
    from tqdm import tqdm

    as_whole("samples", settings.samples)
    require(len(problems) > 0, "problems must not be empty", problems=len(problems))
    outcomes = []
    together = max(1, settings.batch_size // settings.samples)
    with tqdm(total=len(problems), desc="evaluation", unit="problem", file=sys.stderr, leave=False) as bar:
        for start in range(0, len(problems), together):
            some = problems[start : start + together]
            rollouts = sample(
                policy.model, policy.tokenizer,
                [encode_prompt(policy.tokenizer, problem.prompt, device=policy.model.device) for problem in some],
                settings.samples, eos_ids=policy.eos_ids, pad_id=policy.pad_id, batch_size=settings.batch_size,
                generators=group_generators(settings.seed, "evaluation", groups=range(start, start + len(some))),
                max_new_tokens=settings.max_new_tokens, temperature=settings.temperature,
                decode=not isinstance(task, IdVerifier),
            )  # fmt: skip
            verdicts = judged(task, some, rollouts)
            for place, problem in enumerate(some):
                own = verdicts[place * settings.samples : (place + 1) * settings.samples]
                outcomes.append(_outcome(problem, rollouts.groups(place, place + 1), own))
            bar.update(len(some))
    return outcomes


def _outcome(problem: Problem, rollouts: Rollouts, verdicts: list[Verdict]) -> Outcome:
    """The count of one problem's rollouts."""
    right = [slot for slot, verdict in enumerate(verdicts) if verdict.success]
    # Distinct texts; where nothing was decoded, distinct ids (what does not count is padding, equal in all).
    ids = rollouts.completions[0].masked_fill(~rollouts.mask[0], -1)[right]
    distinct = len({rollouts.texts[0][slot] for slot in right}) if any(rollouts.texts[0]) else len(ids.unique(dim=0))
    unscorable = sum(verdict.success is None for verdict in verdicts)
    kinds = Counter(verdict.reason.split(":")[0] for verdict in verdicts if not verdict.success)
    return Outcome(
        problem.id, len(verdicts), len(verdicts) - unscorable, len(right), unscorable, int(rollouts.truncated.sum()),
        distinct, float(rollouts.lengths.double().mean()),
        ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()),
    )  # fmt: skip


def pass_at_k_rows(
    scorable: ArrayLike,
    correct: ArrayLike,
    ks: Sequence[int],
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> list[dict[str, float]]:
    """One row a k with the mean over the problems that have at least k scorable answers, and both intervals.

    scorable, correct: one count a problem. Columns: k, problems, pass_at_k, bootstrap_low, bootstrap_high, sampling_low,
    sampling_high. A k that no problem has answers for has no row. Raises ValueError as `pass_at_k`.

    >>> [row["pass_at_k"] for row in pass_at_k_rows([4, 4], [0, 2], [1, 4, 8])]
    [0.25, 0.5]
    """
    sizes, rights = np.asarray(scorable), np.asarray(correct)
    rows = []
    for k in ks:
        enough = sizes >= k
        if not enough.any():
            continue
        values = np.atleast_1d(pass_at_k(sizes[enough], rights[enough], k))
        low, high = bootstrap_interval(values, level=level, draws=draws, seed=seed)
        rates = (rights[enough] + 0.5) / (sizes[enough] + 1.0)
        variance = np.sum(pass_at_k_variance(sizes[enough], rates, k)) / len(values) ** 2
        mean, half = float(values.mean()), float(ndtri(0.5 + level / 2) * np.sqrt(variance))
        rows.append(
            {
                "k": k, "problems": len(values), "pass_at_k": mean, "bootstrap_low": low, "bootstrap_high": high,
                "sampling_low": max(0.0, mean - half), "sampling_high": min(1.0, mean + half),
            }
        )  # fmt: skip
    return rows


def bootstrap_interval(
    values: NDArray[np.float64], *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over problems; the same seed resamples all k and runs alike.

    >>> bootstrap_interval(np.ones(5))
    (1.0, 1.0)
    """
    picks = generator(seed, "bootstrap", len(values)).integers(len(values), size=(draws, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows that share their keys, as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}
