"""The loop of every kind of training: resume, step, log, probe, checkpoint, stop when asked.

A learner says what a step is (`trainer.Trainer`, `sft.SupervisedTrainer`); this module says what a run keeps. Rows of
metrics.jsonl past the checkpoint that a run resumes from are dropped, so that the file reads like an undisturbed run's.
Ctrl-C (or SIGTERM) ends the run after the step at hand with a checkpoint; a second one ends it at once.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from torch import nn
from torch.optim import Optimizer
from tqdm import tqdm

from fgrpo_theory.foundation.files import write_text
from fgrpo_theory.foundation.runs import RunFolder

from .checkpoint import clear_partial, latest_checkpoint, load_checkpoint, save_checkpoint
from .distributed import World
from .metrics import Loggers


@runtime_checkable
class Learner(Protocol):
    """What the loop drives."""

    phase: str
    steps: int
    model: nn.Module

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the trained weights."""

    def step(self, index: int) -> dict[str, Any]:
        """Take step `index`, counted from 0; return its metrics: numbers, and perhaps columns under "groups"."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps beside weights, optimizer and generators, as JSON."""

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""


class Interrupted(Exception):
    """The run was asked to stop and has saved a checkpoint; `step` steps of `phase` are done."""

    def __init__(self, phase: str, step: int) -> None:
        super().__init__(f"stopped after step {step} of phase {phase}")
        self.phase, self.step = phase, step


@dataclass
class StopRequest:
    """Whether a signal has asked for the end."""

    asked: bool = field(default=False)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM set the request inside the block; the second one raises KeyboardInterrupt."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True
        print("\nstopping after this step; once more stops at once", file=sys.stderr, flush=True)

    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Pace:
    """How often the loop saves and probes."""

    checkpoint_every: int
    """steps between checkpoints"""
    keep_checkpoints: int
    """newest checkpoints that stay"""
    probe_every: int = 0
    """steps between probes; 0 is never"""


@dataclass(frozen=True)
class Records:
    """Where a run's rows go: nowhere on ranks other than the first."""

    folder: RunFolder | None
    loggers: Loggers | None = None

    def write(self, phase: str, step: int, values: Mapping[str, Any]) -> None:
        """One row of metrics.jsonl, and its numbers to the loggers."""
        if self.folder is not None:
            self.folder.log({"phase": phase, "step": step, **values})
        if self.loggers is not None:
            self.loggers.log(phase, step, {name: value for name, value in values.items() if name != "groups"})


def train(
    learner: Learner,
    root: Path,
    world: World,
    pace: Pace,
    records: Records,
    request: StopRequest,
    probe: Callable[[int], Mapping[str, float]] | None = None,
) -> None:
    """Run the learner's remaining steps from its latest checkpoint under `root/checkpoints/PHASE`.

    probe: measured after step 0, `probe_every`, ... and the last step (its argument), as rows of phase "probe".
    Raises Interrupted after a checkpoint if `request` is set on any rank.
    """
    checkpoints = root / "checkpoints" / learner.phase
    done = _resume(learner, checkpoints, root, world)
    if done == 0 and probe is not None and pace.probe_every:
        records.write("probe", 0, probe(0))
    with _bar(learner, done, world) as bar:
        for index in range(done, learner.steps):
            values = learner.step(index)
            step, last = index + 1, index + 1 == learner.steps
            records.write(learner.phase, step, values)
            if probe is not None and pace.probe_every and (step % pace.probe_every == 0 or last):
                records.write("probe", step, probe(step))
            stop = world.any(request.asked)
            if step % pace.checkpoint_every == 0 or last or stop:
                _save(learner, checkpoints, step, pace.keep_checkpoints, world)
            bar.update()
            bar.set_postfix({name: values[name] for name in ("success", "loss") if name in values}, refresh=False)
            if stop and not last:
                raise Interrupted(learner.phase, step)


def _bar(learner: Learner, done: int, world: World) -> Any:
    """Progress on stderr, of the first rank."""
    return tqdm(
        total=learner.steps,
        initial=done,
        desc=learner.phase,
        disable=not world.is_first,
        file=sys.stderr,
        mininterval=1.0,
    )


def _resume(learner: Learner, checkpoints: Path, root: Path, world: World) -> int:
    """Steps done so far, with the learner and the metrics as they were then."""
    if world.is_first:
        clear_partial(checkpoints)
    world.barrier()
    checkpoint = latest_checkpoint(checkpoints)
    done = 0
    if checkpoint is not None:
        state = load_checkpoint(checkpoint, learner.model, learner.optimizer)
        done = state.pop("step")
        learner.restore(state)
    if world.is_first:
        cut_metrics(root / "metrics.jsonl", learner.phase, done)
    world.barrier()
    return done


def _save(learner: Learner, checkpoints: Path, step: int, keep: int, world: World) -> None:
    # Every rank holds the same weights, moments and position.
    if world.is_first:
        save_checkpoint(checkpoints, step, learner.model, learner.optimizer, learner.state(), keep=keep)
    world.barrier()


def cut_metrics(path: Path, phase: str, done: int) -> None:
    """Drop the rows that steps after `done` of a phase (and its probes) have written, and a row cut off by a kill."""
    if not path.exists():
        return
    kept, lines = [], path.read_text(encoding="utf-8").splitlines(keepends=True)
    for line in lines:
        if not line.endswith("\n"):
            break
        row = json.loads(line)
        own = row["phase"] == phase or (phase == "rl" and row["phase"] == "probe")
        if own and (row["step"] > done or done == 0):
            break
        kept.append(line)
    if len(kept) < len(lines):
        write_text(path, "".join(kept))
