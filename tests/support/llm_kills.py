"""Kill a training run again and again, resume it each time, and write down how often that was.

    python llm_kills.py CONFIG.json OUT KILLS SEED

Every attempt is a process forked from this one after the imports, so that kills land in the run and not in its start-up.
This process itself never computes with torch: a fork of a warm thread pool may hang.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import transformers.models.qwen2.modeling_qwen2  # noqa: F401

from llm.config import TrainConfig
from llm.training_run import train_run


def attempt(config: TrainConfig, out: Path) -> int:
    """Start the run in a fork; return its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train_run(config, out)
            code = 0
        finally:
            os._exit(code)
    return child


def state(out: Path) -> str:
    """Where a kill has hit."""
    partial = out.with_name(out.name + ".partial")
    if list(partial.glob("checkpoints/*/.step-*.partial")):
        return "in a save"
    return "after a checkpoint" if list(partial.glob("checkpoints/*/step-*")) else "before any"


def main() -> None:
    config = TrainConfig.from_json(json.loads(Path(sys.argv[1]).read_text()))
    out, kills, stream = Path(sys.argv[2]), int(sys.argv[3]), random.Random(int(sys.argv[4]))
    calm = out.with_name("undisturbed")
    start = time.monotonic()
    assert os.waitpid(attempt(config, calm), 0)[1] == 0
    # The first quarter of a run from its start, so that progress is never fast enough to finish before the last kill.
    longest = (time.monotonic() - start) / 4
    hits: Counter[str] = Counter()
    while sum(hits.values()) < kills:
        child = attempt(config, out)
        time.sleep(stream.uniform(0.02, longest))
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] == signal.SIGKILL:
            hits[state(out)] += 1
        else:
            # It was faster than the kill: this run counts for nothing, and a fresh one takes the remaining kills.
            shutil.rmtree(out)
    assert os.waitpid(attempt(config, out), 0)[1] == 0
    print(json.dumps(hits))


if __name__ == "__main__":
    main()
