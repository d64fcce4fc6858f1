"""The diagnosis as rows: what the terminal, the CSV output and the HTML page print, so that they cannot disagree."""

from __future__ import annotations

from typing import Any

from fgrpo_theory.foundation.printing import Row, number, render

from .measures import Entry

Diagnosis = dict[str, Any]


def shown(entry: Entry | None, digits: int = 3) -> str:
    """An estimate as text: value (lower to upper), or value and what is lacking.

    >>> shown({"value": 0.5, "lower": 0.4, "upper": 0.6})
    '0.5 (0.4 to 0.6)'
    >>> shown({"value": 0.5, "lacking": "not enough data: 3 prompts, 30 needed"})
    '0.5 (not enough data: 3 prompts, 30 needed)'
    """
    if not entry:
        return "-"
    if "value" not in entry:
        return str(entry.get("lacking", "-"))
    if "lower" not in entry:
        return f"{number(entry['value'], digits)} ({entry.get('lacking', 'no interval')})"
    return " ".join(
        (number(entry["value"], digits), f"({number(entry['lower'], digits)} to {number(entry['upper'], digits)})")
    )


def source_rows(found: Diagnosis) -> list[Row]:
    """What was read and what was left out."""
    source = found["source"]
    columns = ", ".join(f"{role} = {name}" for role, name in source["columns"].items())
    rows = {
        "format": f"{source['format']} ({columns})",
        "success": source["success"],
        "files, rows": f"{source['files']}, {source['rows']}",
        "steps": f"{source['steps']} in {len(source['windows'])} windows",
        "present window": _steps(source["windows"][-1]),
    }
    if source["skipped_files"]:
        rows["files that are no rollouts"] = f"{len(source['skipped_files'])}: {', '.join(source['skipped_files'][:3])}"
    if source["corrupt_lines"]:
        rows["corrupt lines"] = f"{source['corrupt_lines']}: {', '.join(source['corrupt_places'])}"
    if source["repeated_steps"]:
        rows["steps that repeat the one before"] = (
            f"{source['repeated_steps']} ({source['repeated_rows']} rows left out)"
        )
    rows |= {name: str(count) for name, count in source["left_out"].items()}
    return [{"what": name, "value": value} for name, value in rows.items()]


def group_rows(found: Diagnosis) -> list[Row]:
    """Kinds of groups, as counts of the log and of the present window, and their shares."""
    log, present = found["groups"]["log"], found["groups"]["present"]
    shares = found["present"]
    rows: list[Row] = [
        {"groups": name, "log": log[key], "present": present[key], "share of the present": shown(shares.get(key))}
        for name, key in (("active", "active"), ("all wrong", "all_wrong"), ("all right", "all_right"))
    ]
    rows.append(
        {"groups": "inactive", "log": log["inactive"], "present": present["inactive"], "share of the present": ""}
    )
    other = f"not of N = {found['group_size']}"
    rows.append(
        {
            "groups": other,
            "log": log["of_other_sizes"],
            "present": present["of_other_sizes"],
            "share of the present": "",
        }
    )
    lost = found["groups"]["without_a_scorable_rollout"]
    if lost:
        rows.append({"groups": "nothing scorable", "log": lost, "present": None, "share of the present": ""})
    return rows


def miss_rows(found: Diagnosis) -> list[Row]:
    """The tail miss by N: measured up to the log's N, under the Beta law beyond; one column a supported fraction."""
    kept = [item["rare_fraction"] for item in found["rare_fractions"] if item["supported"]]
    rows: dict[tuple[int, str], dict[str, object]] = {}
    sources = (("measured", found["tail_miss"]), ("Beta law", found["population"].get("tail_miss", [])))
    for origin, items in sources:
        for item in items:
            for entry in item["curve"] if item["rare_fraction"] in kept else []:
                size = entry["group_size"]
                row = rows.setdefault((size, origin), {"N": size, "by": origin})
                row[f"rho = {item['rare_fraction']:g}"] = shown(entry)
    return list(rows.values())


def pass_rows(found: Diagnosis) -> list[Row]:
    """pass@k now, and its change since the first window."""
    changes = {row["k"]: row for row in found["trend"].get("changes", [])}
    return [
        {"k": row["k"], "pass@k now": shown(row), "change since the first window": shown(changes.get(row["k"]))}
        for row in found["pass_at_k"]
    ]


def time_rows(found: Diagnosis) -> list[Row]:
    """Every window."""
    return [
        {
            "steps": _steps(row),
            "groups": row["groups"],
            "active": shown(row.get("active")),
            "pass@1": shown(row["pass_at_k"][0] if row.get("pass_at_k") else None),
            "pass@N": shown(row["pass_at_k"][-1] if row.get("pass_at_k") else None),
        }
        for row in found["over_time"]
    ]


def focal_rows(found: Diagnosis) -> list[Row]:
    """What each gamma leaves of the updates."""
    return [
        {
            "gamma": row["gamma"],
            "update kept": shown(row.get("update_kept") or row),
            "from prompts solved > 1/2: before": shown(row.get("from_easy_before")),
            "after": shown(row.get("from_easy_after")),
            "same size by learning rate x": row["learning_rate_multiplier"],
        }
        for row in found["focal"]
    ]


def population_rows(found: Diagnosis) -> list[Row]:
    """The Beta fit and its quality."""
    law = found["population"]
    rows: list[Row] = []
    if "alpha" in law:
        rows = [
            {"what": "law of the success rates", "value": f"Beta({law['alpha']:.3g}, {law['beta']:.3g})"},
            {"what": "mean", "value": shown(law.get("mean"))},
            {"what": "alpha + beta", "value": shown(law.get("concentration"))},
            {"what": "quality of the fit", "value": quality(law)},
        ]
    return [*rows, {"what": "larger N", "value": law["lacking"]}] if "lacking" in law else rows


def quality(law: Entry) -> str:
    """The quality with its numbers."""
    test = "no test" if law["p_value"] is None else f"p = {law['p_value']:.2g}"
    return f"{law['quality']} (distance {law['distance']:.3f}, by chance {law['distance_by_chance']:.3f}, {test})"


def unsampled_rows(found: Diagnosis) -> list[Row]:
    """Good-Turing."""
    unsampled = found["unsampled"]
    if "mass" not in unsampled:
        return [{"what": "unsampled correct mass", "value": unsampled["lacking"]}]
    rows: list[Row] = [
        {
            "what": "correct rollouts; given once in their group",
            "value": f"{unsampled['correct']}; {unsampled['singletons']}",
        },
        {"what": "unsampled correct mass", "value": shown(unsampled["mass"])},
        {"what": "as a share of all correct mass", "value": shown(unsampled.get("share_of_correct"))},
    ]
    return [*rows, {"what": "note", "value": unsampled["note"]}] if "note" in unsampled else rows


def advice_lines(found: Diagnosis) -> list[str]:
    """The recommendation in sentences."""
    advice = found["advice"]
    if "gamma" in advice:
        lines = [f"Recommendation: N = {advice['group_size']}, gamma = {advice['gamma']:g} ({advice['verdict']})."]
    else:
        lines = ["Recommendation: not enough data."]
    lines += [f"- {reason}" for reason in advice["reasons"]]
    other = advice.get("alternative")
    if other and "lacking" in other:
        lines.append(f"- a larger N instead: {other['lacking']}")
    elif other and other["group_size"] is None:
        lines.append(f"- a larger N instead: none up to {other['tried_up_to']} comes down to {advice['max_miss']:g}")
    elif other:
        most = other["at_most"] or f"beyond {other['tried_up_to']}"
        lines.append(
            f"- a larger N instead: {other['group_size']} ({other['at_least']} to {most}) by the Beta law, "
            f"at {other['times_the_rollouts']} times the rollouts"
        )
    return lines


def _steps(window: Entry) -> str:
    first, last = window.get("first", window.get("first_step")), window.get("last", window.get("last_step"))
    return f"{first} to {last}"


SECTIONS = (
    ("Read", source_rows),
    ("Groups", group_rows),
    ("Success rates of the prompts", population_rows),
    ("Tail miss: an active group that misses a kind with a share rho of the correct answers", miss_rows),
    ("pass@k", pass_rows),
    ("Over training", time_rows),
    ("Correct answers not sampled (Good-Turing)", unsampled_rows),
    ("Focal weight", focal_rows),
)
"""Every table in order: its title, and the function that makes its rows."""


def as_text(found: Diagnosis) -> str:
    """The diagnosis for the terminal."""
    parts = ["\n".join(advice_lines(found))]
    for title, rows in SECTIONS:
        parts.append(f"{title}\n{render(rows(found), digits=3)}")
    return "\n\n".join(parts)


def flat_rows(found: object, path: str = "") -> list[Row]:
    """Every number of the diagnosis with its path, for CSV: {"name": "present.active.value", "value": 0.64}."""
    if isinstance(found, dict):
        return [row for key, value in found.items() for row in flat_rows(value, f"{path}.{key}" if path else str(key))]
    if isinstance(found, list):
        return [row for index, value in enumerate(found) for row in flat_rows(value, f"{path}.{index}")]
    return [{"name": path, "value": found}]
