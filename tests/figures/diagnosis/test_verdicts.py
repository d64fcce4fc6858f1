"""The measures on logs whose numbers are known, and the rules of the recommendation, each on a log that it decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnosis_logs import FOUR, at, found, group, trl, verl, write_parquet
from scipy import stats

from fgrpo_theory import pass_at_k
from fgrpo_theory.beta_fit import beta_binomial_tail_miss
from figures.diagnosis.measures import LEAST_PROMPTS
from figures.diagnosis.tables import SECTIONS, advice_lines, as_text, flat_rows


def counted(path: Path, samples: Any, correct: Any, step: Any = None) -> dict[str, Any]:
    """The diagnosis of prompts with these counts."""
    columns = {"prompt": [f"p{i}" for i in range(len(correct))], "samples": np.broadcast_to(samples, len(correct)),
               "correct": np.asarray(correct)}  # fmt: skip
    return found(write_parquet(path / "t.parquet", columns))


def beta_counts(size: int, law: tuple[float, float], prompts: int) -> np.ndarray:
    """Right ones of each prompt, in the proportions of the beta-binomial law."""
    shares = stats.betabinom.cdf(np.arange(size + 1), size, *law)
    return np.searchsorted(shares, (np.arange(prompts) + 0.5) / prompts)


def test_too_few_prompts_are_no_verdict(tmp_path: Path) -> None:
    diagnosis = found(trl(tmp_path, FOUR))
    assert at(diagnosis, "advice.verdict") == "not enough data"
    assert "gamma" not in diagnosis["advice"]
    assert at(diagnosis, "present.active") == {
        "value": 0.5, "lacking": f"not enough data: 2 prompts, {LEAST_PROMPTS} needed",
    }  # fmt: skip
    assert at(diagnosis, "population.lacking") == "not enough data: 2 active groups, 15 needed"
    assert advice_lines(diagnosis)[0] == "Recommendation: not enough data."


def test_in_the_zone(tmp_path: Path) -> None:
    """400 prompts of Beta(2, 4), N = 8: the tail miss of 10 % is far above 0.05, and gamma = 0.5 is advised."""
    right = beta_counts(8, (2, 4), 400)
    diagnosis = counted(tmp_path, 8, right)
    advice = diagnosis["advice"]
    active = right[(right > 0) & (right < 8)]
    assert advice["tail_miss_now"]["value"] == pytest.approx(float((0.9**active).sum()) / 400)
    assert advice["tail_miss_now"]["lower"] > 0.05
    assert (advice["verdict"], advice["group_size"], advice["gamma"]) == ("in the zone", 8, 0.5)
    law = diagnosis["population"]
    assert (law["alpha"], law["beta"]) == pytest.approx((2, 4), rel=0.05)
    assert law["quality"] == "good"
    # The least N of 16, 32, ... with a tail miss of at most 0.05 under the fitted law.
    sizes = [8 * 2**i for i in range(1, 8)]
    least = next(n for n in sizes if beta_binomial_tail_miss(n, law["alpha"], law["beta"], 0.1) <= 0.05)
    assert advice["alternative"]["group_size"] == least
    assert advice["alternative"]["times_the_rollouts"] == least // 8
    assert advice["alternative"]["at_least"] <= least


def test_hopeless_prompts_keep_every_group_size_in_the_zone(tmp_path: Path) -> None:
    """Beta(0.5, 1): many prompts near 0, whose groups are active by a single right answer, at any N."""
    diagnosis = counted(tmp_path, 8, beta_counts(8, (0.5, 1), 400))
    assert at(diagnosis, "advice.alternative.group_size") is None
    assert advice_lines(diagnosis)[-1] == "- a larger N instead: none up to 1024 comes down to 0.05"


def test_safe(tmp_path: Path) -> None:
    """64 rollouts at mu about 1/2: 0.9 ** 32 = 0.03."""
    diagnosis = counted(tmp_path, 64, [32] * 40 + [36] * 40)
    assert at(diagnosis, "advice.verdict") == "safe"
    assert (at(diagnosis, "advice.group_size"), at(diagnosis, "advice.gamma")) == (64, 0.0)
    assert at(diagnosis, "advice.tail_miss_now.value") == pytest.approx((0.9**32 + 0.9**36) / 2)


def test_easy_prompts_ask_for_gamma_1(tmp_path: Path) -> None:
    """Four of five active groups hold 7 of 8 right: most of the update comes from what is already solved."""
    diagnosis = counted(tmp_path, 8, [7] * 160 + [2] * 40)
    assert at(diagnosis, "advice.gamma") == 1.0
    easy = at(diagnosis, "focal.0.from_easy_before.value")
    weight = {x: np.sqrt(x / 8 * (1 - x / 8)) for x in (7, 2)}
    assert easy == pytest.approx(160 * weight[7] / (160 * weight[7] + 40 * weight[2]))
    kept = at(diagnosis, "focal.1.update_kept.value")
    plain = 160 * weight[7] + 40 * weight[2]
    assert kept == pytest.approx((160 * weight[7] / 8 + 40 * weight[2] * 6 / 8) / plain)


def test_a_fallen_pass_at_k_asks_for_gamma_1(tmp_path: Path) -> None:
    """The same 120 prompts: first each has 2 of 8 right; at the end a third is lost and the others have 4."""
    rows = [row for i in range(120) for row in group(1, f"p{i}", ["x", "y"], 6)]
    rows += [
        row for i in range(120) for row in group(2, f"p{i}", [] if i % 3 == 0 else ["x"] * 4, 8 if i % 3 == 0 else 4)
    ]
    diagnosis = found(verl(tmp_path, rows))
    changes = {row["k"]: row for row in at(diagnosis, "trend.changes")}
    assert changes[8]["value"] == pytest.approx(-1 / 3)
    assert changes[8]["upper"] < 0
    # pass@1: from 1/4 to 2/3 of 1/2.
    assert changes[1]["value"] == pytest.approx(1 / 3 - 1 / 4)
    assert at(diagnosis, "advice.gamma") == 1.0
    assert any("pass@8 has fallen by 0.333" in line for line in advice_lines(diagnosis))
    windows = at(diagnosis, "over_time")
    assert [(row["first_step"], row["groups"]) for row in windows] == [(1, 120), (2, 120)]
    assert windows[0]["pass_at_k"][-1]["value"] == 1.0


def test_an_interval_that_holds_the_limit_decides_nothing(tmp_path: Path) -> None:
    diagnosis = counted(tmp_path, 8, [0] * 35 + [4] * 3)
    now = at(diagnosis, "advice.tail_miss_now")
    assert now["lower"] <= 0.05 < now["upper"]
    assert at(diagnosis, "advice.verdict") == "not enough data"


def test_a_rare_fraction_that_the_log_cannot_show(tmp_path: Path) -> None:
    """60 groups with one right answer each: a kind of 1 % would be in 0.6 of them."""
    path = write_parquet(
        tmp_path / "t.parquet", {"prompt": [f"p{i}" for i in range(60)], "samples": [8] * 60, "correct": [1] * 60}
    )
    diagnosis = found(path, rare=0.01)
    support = {row["rare_fraction"]: row for row in at(diagnosis, "rare_fractions")}
    assert support[0.01]["witnesses"] == pytest.approx(60 * 0.01)
    assert not support[0.01]["supported"]
    assert at(diagnosis, "advice.verdict") == "not enough data"
    assert any("0.6 groups would show a kind with 1%" in line for line in advice_lines(diagnosis))


def test_good_turing_is_the_leave_one_out_mass(tmp_path: Path) -> None:
    """E[f1 / n] = E of the correct mass that n - 1 draws have not seen: by listing all draws of 3 from a law."""
    law = {"x": 0.3, "y": 0.1, None: 0.6}
    names = list(law)
    left = right = 0.0
    for draws in np.ndindex(3, 3, 3):
        chance = float(np.prod([law[names[i]] for i in draws]))
        answers = [names[i] for i in draws if names[i] is not None]
        diagnosis_of_group = sum(answers.count(one) == 1 for one in answers) / 3
        left += chance * diagnosis_of_group
    for draws in np.ndindex(3, 3):
        chance = float(np.prod([law[names[i]] for i in draws]))
        right += chance * sum(
            p for name, p in law.items() if name is not None and name not in [names[i] for i in draws]
        )
    assert left == pytest.approx(right)
    # And the tool counts f1 like this, over 40 prompts with x, x, y right and one wrong.
    rows = [row for i in range(40) for row in group(1, f"p{i}", ["x", "x", "y"], 1)]
    unsampled = found(verl(tmp_path, rows))["unsampled"]
    assert unsampled["mass"]["value"] == pytest.approx(1 / 4)
    assert (unsampled["singletons"], unsampled["correct"], unsampled["all_distinct"]) == (40, 120, False)


def test_unique_completions_are_no_kinds(tmp_path: Path) -> None:
    rows = [row for i in range(40) for row in group(1, f"p{i}", ["x", "y"], 2)]
    unsampled = found(verl(tmp_path, rows))["unsampled"]
    assert unsampled["all_distinct"]
    assert "--column answer=NAME" in unsampled["note"]


def test_a_missing_completion_stops_good_turing(tmp_path: Path) -> None:
    rows = [row for i in range(40) for row in group(1, f"p{i}", ["x", "y"], 2)]
    rows[0] = rows[0]._replace(completion=None)
    diagnosis = found(verl(tmp_path, rows))
    assert at(diagnosis, "unsampled.lacking") == "1 groups hold correct rollouts without a completion"
    assert at(diagnosis, "source.left_out") == {"correct rollouts without a completion": 1}


def test_pass_at_k_is_the_mean_of_eq_27(tmp_path: Path) -> None:
    right = beta_counts(16, (0.5, 1), 100)
    for row in counted(tmp_path, 16, right)["pass_at_k"]:
        assert row["value"] == pytest.approx(float(np.mean(pass_at_k(16, right, row["k"]))))
        assert row["lower"] < row["value"] < row["upper"]


def test_a_law_that_does_not_fit_foretells_nothing(tmp_path: Path) -> None:
    right = [8] * 100 + [15] * 60 + [16] * 40
    law = counted(tmp_path, 16, right)["population"]
    assert law["quality"] == "poor"
    assert "a Beta law does not describe" in law["lacking"]
    assert "tail_miss" not in law


def test_groups_of_one_rollout_are_never_active(tmp_path: Path) -> None:
    diagnosis = counted(tmp_path, 1, [0, 1] * 30)
    assert at(diagnosis, "present.active")["value"] == 0
    assert at(diagnosis, "advice.verdict") == "not enough data"
    assert as_text(diagnosis)


def test_every_table_is_in_the_text(tmp_path: Path) -> None:
    diagnosis = counted(tmp_path, 8, beta_counts(8, (0.5, 1), 100))
    text = as_text(diagnosis)
    assert text.startswith("Recommendation: N = 8, gamma = 0.5 (in the zone).\n- at N = 8 an active group that misses")
    for title, _ in SECTIONS:
        assert f"\n\n{title}\n" in text
    numbers = {row["name"]: row["value"] for row in flat_rows(diagnosis)}
    assert numbers["present.active.value"] == at(diagnosis, "present.active.value")


@pytest.mark.parametrize(("options", "message"), [
    ({"rare": 0.0}, r"rare must lie in \(0, 1\), got rare=0"),
    ({"max_miss": 1.0}, r"max_miss must lie in \(0, 1\), got max_miss=1"),
    ({"success_threshold": float("nan")}, "success_threshold"),
])  # fmt: skip
def test_bad_options_are_named(tmp_path: Path, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        found(trl(tmp_path, FOUR), **options)
