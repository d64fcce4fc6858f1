"""`fgrpo verl check`: does verl, in this environment, know the estimator `fgrpo`; and if not, why not.

verl loads its plug-ins while it is imported and swallows their errors, so a missing estimator shows only as "Unknown advantage
estimator" after the cluster has started. The check asks every question in turn and stops at the first no. It says nothing about
other machines: run it on every node's image.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata

from fgrpo_theory.foundation.printing import add_form, render

GROUP, NAME, MODULE, TESTED = "verl.plugins", "fgrpo", "llm.adapters.verl", "0.9.1"
POLICY = "VERL_USE_EXTERNAL_PLUGINS"

Answer = tuple[str, bool, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands of `fgrpo verl`."""
    commands = parser.add_subparsers(dest="verl_command", metavar="COMMAND", required=True)
    text = "does verl see the estimator fgrpo here, and if not, why not (exit code 1)"
    check = commands.add_parser(
        "check", help=text, description=f"{text[0].upper()}{text[1:]}. Example: fgrpo verl check"
    )
    add_form(check)
    check.set_defaults(run=run_check)


def run_check(arguments: argparse.Namespace) -> int:
    """Print every answer; 0 if verl can use the estimator, else 1."""
    answers = list(answer_all())
    rows = [{"check": check, "ok": "yes" if good else "NO", "answer": answer} for check, good, answer in answers]
    print(render(rows, arguments.form))
    return 0 if all(good for _, good, _ in answers) else 1


def answer_all() -> Iterator[Answer]:
    """The questions in turn, up to the first that is answered with no."""
    for ask in (_installed, _declared, _allowed, _registered, _works):
        answer = ask()
        yield answer
        if not answer[1]:
            return


def _installed() -> Answer:
    found = {distribution.version for distribution in metadata.distributions(name="verl")}
    if not found:
        return "verl is installed", False, f"not in {sys.prefix}; pip install 'fgrpo[verl]' brings it"
    version = min(found)
    return "verl is installed", True, version if version == TESTED else f"{version} (tested with {TESTED})"


def _declared() -> Answer:
    check = f"fgrpo is installed with its entry point in {GROUP}"
    found = metadata.entry_points(group=GROUP, name=NAME)
    if not found:
        return (
            check,
            False,
            f"no entry point {NAME}; pip install fgrpo in this environment (a path to the sources is not enough)",
        )
    return check, True, ", ".join(sorted({entry.value for entry in found}))


def _allowed() -> Answer:
    policy = os.environ.get(POLICY, "auto").strip().lower()
    good = policy == "auto" or NAME in [name.strip() for name in policy.split(",")]
    return f"{POLICY} lets verl load it", good, f"{POLICY}={policy}" + ("" if good else f"; set auto, or add {NAME}")


def _registered() -> Answer:
    """verl's import loads the plug-in. Where it has not, load it again, so that the error which verl swallowed shows."""
    check = "verl has loaded and registered it"
    try:
        registry = importlib.import_module("verl.trainer.ppo.core_algos").ADV_ESTIMATOR_REGISTRY
    except Exception as error:
        return check, False, f"verl itself cannot be imported: {_line(error)}"
    if NAME not in registry:
        try:
            importlib.import_module(MODULE)
        except Exception as error:
            return check, False, f"{MODULE} cannot be imported: {_line(error)}"
        return check, False, f"{MODULE} can be imported now, but could not while verl was imported"
    owner = registry[NAME].__module__
    return check, owner == MODULE, owner if owner == MODULE else f"{NAME} is registered by {owner}"


def _works() -> Answer:
    """One group with one success in four: gamma 1 must give 3/4 of what gamma 0 gives."""
    check = "verl's call of it gives weighted advantages"
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    rewards, mask = torch.tensor([[1.0], [0.0], [0.0], [0.0]]), torch.ones(4, 1)
    plain, focal = (
        get_adv_estimator_fn(NAME)(
            token_level_rewards=rewards,
            response_mask=mask,
            index=np.zeros(4, dtype=object),
            config={"focal_gamma": gamma},
        )[0]
        for gamma in (0.0, 1.0)
    )
    shown = f"rewards 1, 0, 0, 0: {plain[0, 0]:.4f} with gamma 0, {focal[0, 0]:.4f} with gamma 1"
    return check, bool(torch.allclose(focal, 0.75 * plain)), shown


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
