"""`fgrpo verl check`, in environments made good and bad in the ways that verl keeps quiet about."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = (
    "import argparse, sys; from llm.adapters import verl_cli; parser = argparse.ArgumentParser(); verl_cli.configure(parser); "
    "arguments = parser.parse_args(['check', '--json']); sys.exit(arguments.run(arguments))"
)
BLOCK = "import sys; sys.modules['{name}'] = None\n"


def check(before: str = "", **environment: str) -> tuple[int, list[dict]]:
    done = subprocess.run(
        [sys.executable, "-c", before + RUN], capture_output=True, text=True, cwd=ROOT, env=os.environ | environment
    )
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def test_verl_sees_the_estimator_through_its_entry_point():
    code, answers = check()
    assert (code, [answer["ok"] for answer in answers]) == (0, ["yes"] * 5), answers
    assert answers[-1]["answer"].endswith("1.5000 with gamma 0, 1.1250 with gamma 1")


def test_the_import_error_that_verl_swallows_is_shown():
    # The core library jaxtyping is missing: verl's import goes through, without the estimator and without a word.
    code, answers = check(BLOCK.format(name="jaxtyping"))
    assert code == 1
    assert answers[-1]["ok"] == "NO"
    assert "llm.adapters.verl cannot be imported: ModuleNotFoundError: import of jaxtyping" in answers[-1]["answer"]


@pytest.mark.parametrize(
    ("before", "environment", "message"),
    [
        ("", {"VERL_USE_EXTERNAL_PLUGINS": "none"}, "VERL_USE_EXTERNAL_PLUGINS=none; set auto, or add fgrpo"),
        ("", {"VERL_USE_EXTERNAL_PLUGINS": "other, third"}, "set auto, or add fgrpo"),
        (
            "import importlib.metadata as m; m.entry_points = lambda **_: ()\n",
            {},
            "no entry point fgrpo; pip install fgrpo",
        ),
        (
            "import importlib.metadata as m; m.distributions = lambda **_: []\n",
            {},
            "pip install 'fgrpo[verl]' brings it",
        ),
    ],
)
def test_other_reasons(before, environment, message):
    code, answers = check(before, **environment)
    assert (code, answers[-1]["ok"]) == (1, "NO")
    assert message in answers[-1]["answer"]
