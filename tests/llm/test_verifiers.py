"""The worker pool: a hang, crash, out-of-memory, exception or odd return is unscorable, never wrong."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time

import pytest

from llm.verifiers.pool import VerifierPool


@pytest.fixture(scope="module")
def pool():
    with VerifierPool("graders:grade", workers=2, timeout_s=1.0, memory_bytes=2**28) as pool:
        pool.grade([("a", "a")])
        yield pool


def test_right_and_wrong_in_order(pool):
    pairs = [(str(i), str(i if i % 3 else -1)) for i in range(50)]
    verdicts = pool.grade(pairs)
    assert [verdict.success for verdict in verdicts] == [bool(i % 3) for i in range(50)]
    assert [verdict.reward for verdict in verdicts] == [float(bool(i % 3)) for i in range(50)]


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("hang", "timeout: over 1 s"),
        ("hang in C", "timeout"),
        ("segfault", "crash: exit code -11"),
        ("kill", "crash: exit code -9"),
        ("exit", "exception: SystemExit"),
        ("memory", "memory"),
        ("raise", "exception: ZeroDivisionError"),
        ("recursion", "exception: RecursionError"),
        ("none", "none"),
        ("number", "no verdict: the grader returned 0.5"),
        ("nan", "no verdict: reward nan"),
    ],
)
def test_unscorable_is_counted_apart_and_neighbours_are_graded(pool, gold, reason):
    before, bad, right, wrong = pool.grade([("x", "x"), (gold, "x"), ("y", "y"), ("z", "y")])
    assert bad.success is None
    assert math.isnan(bad.reward)
    assert bad.reason.startswith(reason)
    assert (before.success, right.success, wrong.success) == (True, True, False)


def test_alarms_prints_and_shaped_rewards(pool):
    alarm, thread, noise, shaped = pool.grade([("alarm", ""), ("thread", ""), ("print", ""), ("shaped", "")])
    assert (alarm.success, thread.success, noise.success) == (True, True, True)
    assert (shaped.success, shaped.reward, shaped.reason) == (True, 0.25, "half")


def test_workers_stay_warm_between_batches():
    with VerifierPool("graders:process_id", workers=1) as pool:
        assert pool.grade([("", "")])[0].reason == pool.grade([("", "")])[0].reason


def test_worker_killed_while_idle_costs_no_answer():
    with VerifierPool("graders:process_id", workers=1) as pool:
        first = int(pool.grade([("", "")])[0].reason)
        os.kill(first, 9)
        time.sleep(0.2)
        verdict = pool.grade([("", "")])[0]
        assert verdict.success is True
        assert int(verdict.reason) != first


def test_children_of_a_hanging_grader_die_with_it(pool):
    assert pool.grade([("child", "")])[0].reason.startswith("timeout")
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "left-over child" not in listing


def test_factory_gets_its_options():
    with VerifierPool("graders:factory", options={"accepted": "yes"}, workers=1) as pool:
        assert [v.success for v in pool.grade([(None, "yes"), (None, "no")])] == [True, False]


@pytest.mark.parametrize(
    ("function", "options", "told"),
    [
        ("graders:missing", None, "graders:missing"),
        ("no_such_module:grade", None, "no_such_module"),
        ("graders", None, "module:function"),
        ("graders:broken_factory", {}, "no such model"),
    ],
)
def test_a_grader_that_cannot_load_is_an_input_error(function, options, told):
    with pytest.raises(ValueError, match=told), VerifierPool(function, options=options, workers=1) as pool:
        pool.grade([("a", "a")])


@pytest.mark.parametrize("bad", [{"workers": 0}, {"timeout_s": 0.0}, {"memory_bytes": -1}])
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        VerifierPool("graders:grade", **bad)


def test_worker_ends_when_its_parent_is_killed():
    code = (
        "import sys, time; from llm.verifiers.pool import VerifierPool\n"
        "pool = VerifierPool('graders:process_id', workers=1)\n"
        "print(pool.grade([('', '')])[0].reason, flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 5
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(process: int) -> bool:
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout
    return bool(listing.strip()) and not listing.startswith("Z")
