"""Claims about the language-model studies, one of each kind for every study and focal arm that was run.

The studies are ours and small (one model of 135 M parameters, few seeds), so a verdict says "holds", "fails" or
"undecided" of these runs and nothing of the paper's. The rule is `studies.decide`: with problems, each seed must show the
same sign by its own bootstrap over problems; without, Student's t interval over seeds must exclude 0. One seed decides
nothing, and a claim that was not decided is not counted as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from .claims import Claim, Finding
from .inputs import Results
from .studies import (
    LOW_LR,
    PLAIN,
    START,
    Floats,
    Study,
    arm_label,
    decide,
    focal_arms,
    pass_at_k,
    spread,
    studies,
)
from .study_masses import SPLIT_LABEL, SPLITS, mean_at_equal_mu, probed
from .study_table import rare_rises

GROUP = "language-model studies"
_NEEDS = ("study_summary", "study_counts")

Judge = Callable[..., Finding]


def claims(results: Results | None = None) -> list[Claim]:
    """A claim of each kind for every study of the results; without one, the kinds as such, which say what to run."""
    if results is None or results.missing(_NEEDS):
        return [_claim(name, text, "", _unrun, needs) for name, text, needs in _KINDS]
    return [claim for study in studies(results) for claim in _of(study, probed(results, study))]


_KINDS = (
    ("rl_raises_pass_1", "RL raises pass@1 over the start", _NEEDS),
    ("grpo_loses_pass_k", "GRPO's pass@k at the largest k falls below the start's", _NEEDS),
    ("focal_keeps_pass_k", "The focal weight keeps more pass@k at the largest k than GRPO", _NEEDS),
    ("low_lr_does_not_explain", "The low learning rate does not explain what the focal weight keeps", _NEEDS),
    ("focal_keeps_rare", "Rare answers drift away less under the focal weight than under GRPO", _NEEDS),
    ("focal_keeps_mass", "At equal µ the focal weight keeps more M_ret than GRPO", (*_NEEDS, "study_probes")),
)


def _unrun(results: Results) -> Finding:
    raise ValueError("results must hold a study, and held none when its claims were listed")


def _claim(name: str, text: str, evidence: str, judge: Callable[[Results], Finding], needs: tuple[str, ...]) -> Claim:
    return Claim(name, GROUP, text, "ours, at small scale", "-", judge, needs, evidence, three_way=True)


def _of(study: Study, exact: bool) -> Iterator[Claim]:
    """The claims of one study: what its arms allow."""
    if PLAIN not in study.arms:
        return
    kinds = {name: (text, needs) for name, text, needs in _KINDS}

    def make(kind: str, judge: Judge, figure: str, arm: str = "") -> Claim:
        text, needs = kinds[kind]
        name = "_".join(part for part in (study.name, kind, arm) if part)
        where = f"{study.label}, {arm_label(arm)}" if arm else study.label
        return _claim(name, f"{where}: {text}", f"fig-{figure}", partial(judge, study=study), needs)

    yield make("rl_raises_pass_1", rl_raises_pass_1, "llm_pass_at_k")
    yield make("grpo_loses_pass_k", grpo_loses_pass_k, "llm_pass_at_k")
    for arm in focal_arms(study):
        yield make("focal_keeps_pass_k", partial(focal_keeps_pass_k, arm=arm), "llm_pass_at_k", arm)
        if LOW_LR in study.arms:
            yield make("low_lr_does_not_explain", partial(low_lr_does_not_explain, arm=arm), "llm_pass_at_k", arm)
        yield make("focal_keeps_rare", partial(focal_keeps_rare, arm=arm), "llm_rare", arm)
        if exact:
            yield make("focal_keeps_mass", partial(focal_keeps_mass, arm=arm), "llm_equal_mu", arm)


def rl_raises_pass_1(results: Results, study: Study) -> Finding:
    curves = pass_at_k(results, study)
    return _judged(curves.over(PLAIN, START, 1), f"pass@1 {_pair(curves.at(START, 1), curves.at(PLAIN, 1))}")


def grpo_loses_pass_k(results: Results, study: Study) -> Finding:
    curves = pass_at_k(results, study)
    k = curves.ks[-1]
    return _judged(
        curves.over(START, PLAIN, k), f"pass@{k} {_pair(curves.at(START, k), curves.at(PLAIN, k))}", "start less GRPO"
    )


def focal_keeps_pass_k(results: Results, study: Study, arm: str) -> Finding:
    curves = pass_at_k(results, study)
    k = curves.ks[-1]
    return _judged(curves.over(arm, PLAIN, k), f"pass@{k} {_pair(curves.at(PLAIN, k), curves.at(arm, k))}")


def low_lr_does_not_explain(results: Results, study: Study, arm: str) -> Finding:
    """The arm must keep more than the control too; if it keeps no more than GRPO, there is nothing to explain."""
    curves = pass_at_k(results, study)
    k = curves.ks[-1]
    found = _judged(curves.over(arm, LOW_LR, k), f"pass@{k} {_pair(curves.at(LOW_LR, k), curves.at(arm, k))}")
    if decide(curves.over(arm, PLAIN, k)) is not True:
        return Finding(found.ours, None, "the focal weight is not shown to keep more than GRPO: nothing to explain")
    return found


def focal_keeps_rare(results: Results, study: Study, arm: str) -> Finding:
    plain, focal = (rare_rises(results, study, name)[:, 0] for name in (PLAIN, arm))
    return _judged(plain - focal, f"rise of rare NLL {_pair(plain, focal, 2)} nats a token", "GRPO less it")


def focal_keeps_mass(results: Results, study: Study, arm: str) -> Finding:
    """Training and held-out prompts must agree."""
    findings = []
    for split in SPLITS:
        seeds, means = mean_at_equal_mu(results, study, split)
        label = SPLIT_LABEL[split]
        if not seeds:
            findings.append(Finding(f"{label}: no µ that all arms of a seed reach between near probes", None, ""))
            continue
        head = f"{label}, {_count(len(seeds), 'seed')}: M_ret {_pair(means[PLAIN], means[arm])}"
        findings.append(_judged(means[arm] - means[PLAIN], head))
    verdicts = {finding.holds for finding in findings}
    why = "; ".join(dict.fromkeys(finding.why for finding in findings if finding.why))
    return Finding("; ".join(finding.ours for finding in findings), verdicts.pop() if len(verdicts) == 1 else None, why)


def _judged(differences: Floats, head: str, sign: str = "") -> Finding:
    """The verdict on differences[seed, problem] or [seed], with their mean, interval and each seed."""
    found = spread(differences)
    limits = "" if found["low"] is None else f" [{found['low']:+.3f}, {found['high']:+.3f}]"
    seeds = ", ".join(f"{value:+.3f}" for value in found["seeds"])
    ours = f"{head}; {sign or 'difference'} {found['mean']:+.3f}{limits} (seeds {seeds})"
    holds = decide(differences)
    return Finding(ours, holds, "" if holds is not None else _open(differences))


def _open(differences: Floats) -> str:
    """Why nothing was decided."""
    if len(differences) < 2:
        return "one seed decides nothing"
    signs = np.sign(differences.reshape(len(differences), -1).mean(axis=1))
    if not signs.any():
        return "no difference in any seed"
    if {-1.0, 1.0} <= set(signs.tolist()):
        return "seeds disagree in sign"
    return "not every seed shows it by itself" if differences.ndim == 2 else "within the spread of seeds"


def _pair(before: Floats, after: Floats, digits: int = 3) -> str:
    return f"{before.mean():.{digits}f} to {after.mean():.{digits}f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
