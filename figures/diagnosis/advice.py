"""The recommendation: group size N and focal exponent gamma, each with its reasons, or "not enough data".

The rules, in order (docs/diagnose.md):
1. The tail miss at the present N, for the share rho of the correct answers that is not to be lost, has an interval
   without a model. Without it, or if rho is not supported: not enough data.
2. Its upper end is at most `max_miss`: keep N, gamma = 0. Its lower end is above: the run is in the zone. Else: not
   enough data to tell.
3. In the zone, keep N and weight: gamma = 1 if more than half of the update comes from prompts that are already solved
   more often than not, or if pass@k at the largest k has fallen; else gamma = 0.5. Larger gammas are never advised: in
   the paper's sweep (table 7) 0.5 or 1 won every time. This choice is the paper's experience, not a law.
4. The alternative: the least N on the ladder N, 2N, 4N, ... whose tail miss under the fitted Beta law is at most
   `max_miss`, from the estimate, and from both ends of its interval. It costs N' / N times the rollouts.
"""

from __future__ import annotations

from typing import Any

from .measures import Entry


def advise(measures: dict[str, Any], population: Entry, rho: float, max_miss: float) -> Entry:
    """The recommendation. measures, population: as `measure` and `population` give them; both hold rho."""
    size = measures["group_size"]
    result: Entry = {"rare_fraction": rho, "max_miss": max_miss, "present_group_size": size}
    now = present_miss(measures, rho)
    result["tail_miss_now"] = now
    lacking = _lacking(measures, now, rho)
    if lacking:
        return result | {"verdict": "not enough data", "reasons": [lacking]}
    where = f"{now['value']:.3f} ({now['lower']:.3f} to {now['upper']:.3f})"
    said = f"at N = {size} an active group that misses a kind of answer with {rho:.0%} of the correct mass has probability {where}"
    if now["upper"] <= max_miss:
        reasons = [f"{said}: at most the {max_miss:g} allowed"]
        return result | {"verdict": "safe", "group_size": size, "gamma": 0.0, "reasons": reasons + _warnings(measures)}
    if now["lower"] <= max_miss:
        reasons = [f"{said}: the interval holds the {max_miss:g} allowed"]
        return result | {"verdict": "not enough data", "reasons": reasons + _warnings(measures)}
    gamma, why = _gamma(measures)
    result |= {
        "verdict": "in the zone",
        "group_size": size,
        "gamma": gamma,
        "reasons": [f"{said}, above {max_miss:g}", *why],
    }
    result["reasons"] += _warnings(measures)
    result["alternative"] = _larger(population, rho, max_miss, size)
    return result


def present_miss(measures: dict[str, Any], rho: float) -> Entry:
    """The tail miss at the present group size for rho."""
    curve = next(item["curve"] for item in measures["tail_miss"] if item["rare_fraction"] == rho)
    return curve[-1] if curve else {"lacking": "not enough data: a group of one rollout is never active"}


def _lacking(measures: dict[str, Any], now: Entry, rho: float) -> str | None:
    if "lacking" in now:
        return str(now["lacking"])
    support = next(item for item in measures["rare_fractions"] if item["rare_fraction"] == rho)
    if not support["supported"]:
        return f"not enough data: {support['witnesses']:.1f} groups would show a kind with {rho:.0%} of the correct answers"
    return None


def _gamma(measures: dict[str, Any]) -> tuple[float, list[str]]:
    easy = measures["focal"][0].get("from_easy_before", {})
    strong = []
    if easy.get("lower", 0.0) > 0.5:
        strong.append(f"{easy['value']:.0%} of the update comes from prompts solved more often than not")
    fallen = fallen_pass(measures)
    if fallen:
        strong.append(f"pass@{fallen['k']} has fallen by {-fallen['value']:.3f} since the first window")
    if strong:
        return 1.0, [f"gamma = 1, since {' and '.join(strong)}"]
    return 0.5, [
        "gamma = 0.5: no sign that the stronger weight is needed (pass@k has not fallen, easy prompts do not dominate)"
    ]


def fallen_pass(measures: dict[str, Any]) -> Entry | None:
    """The change of pass@k at the largest k, if its whole interval is below 0."""
    changes = measures["trend"].get("changes", [])
    last = changes[-1] if changes else {}
    return last if last.get("upper", 0.0) < 0 else None


def _larger(population: Entry, rho: float, max_miss: float, size: int) -> Entry:
    if "lacking" in population:
        return {"lacking": population["lacking"]}
    curve = next(item["curve"] for item in population["tail_miss"] if item["rare_fraction"] == rho)
    found = {
        key: next((row["group_size"] for row in curve if row["group_size"] > size and row[end] <= max_miss), None)
        for key, end in (("group_size", "value"), ("at_least", "lower"), ("at_most", "upper"))
    }
    times = found["group_size"] // size if found["group_size"] else None
    return {**found, "gamma": 0.0, "times_the_rollouts": times, "tried_up_to": curve[-1]["group_size"]}


def _warnings(measures: dict[str, Any]) -> list[str]:
    active = measures["present"]["active"]
    if active.get("upper", 1.0) < 0.3:
        return [
            f"only {active['value']:.0%} of the groups are active: prompts of middling difficulty would help more than N or gamma"
        ]
    return []
