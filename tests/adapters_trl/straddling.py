"""One of two processes whose groups of four lie across both: trains twice, and writes the advantages that it has seen.

RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=... python straddling.py FOLDER
"""

import json
import os
import sys
from pathlib import Path

import llm_trl_tiny as tiny

from llm.adapters.trl import FocalGRPOTrainer

# Two completions of the group in each process: 3 of 4 are right, 2 of 2 and 1 of 2 if looked at apart.
REWARDS = {0: [1.0, 1.0], 1: [1.0, 0.0]}


def train(gamma: float, folder: Path) -> dict[str, object]:
    made = tiny.trainer(
        folder,
        tiny.recording(FocalGRPOTrainer),
        tiny.scripted(REWARDS[int(os.environ["RANK"])]),
        options={"gamma": gamma},
        per_device_train_batch_size=1,
        max_steps=1,
        ddp_backend="gloo",
    )
    made.train()
    seen = [value for advantages, *_ in made.seen for value in advantages.tolist()]
    return {"processes": made.accelerator.num_processes, "seen": seen, "logged": list(made._logged_advantages())}


def main(folder: Path) -> None:
    ours = {"fgrpo_theory", "llm", "sims", "figures", "maze", "numba"}
    result = {
        "plain": train(0.0, folder / "plain"),
        "focal": train(1.0, folder / "focal"),
        "modules": sorted(name for name in sys.modules if name.split(".")[0] in ours - {"fgrpo_theory"}),
    }
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
