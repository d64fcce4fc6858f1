"""The TRL side of compare_steps.py: GRPOTrainer's steps on given prompts, timed. Runs in TRL's own environment.

    venv-trl/bin/python benchmarks/trl_step.py REQUEST.json      (written by compare_steps.py; prints one JSON line)

Everything that the request does not set is set to do least: no reference model, no checkpoints, no logs, no gradient
checkpointing (TRL's default would compute every activation twice).
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any


def main() -> None:
    """Train the request's steps and print seconds of each and the peak of the process's memory in MiB."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(request["threads"])
    prompts, group, tokens = request["prompts"], request["group_size"], request["max_new_tokens"]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    # Sampling lies before `on_step_begin` in Transformers' loop: so time is taken from end to end of steps instead.
    ends: list[float] = []

    class Ends(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    def reward(completions: list[Any], answers: list[list[str]], **_: Any) -> list[float]:
        texts = [turns[0]["content"] for turns in completions]
        if request["full"]:
            return [float(place % 2) for place in range(len(texts))]
        return [float(text in right) for text, right in zip(texts, answers, strict=True)]

    rows = Dataset.from_list(
        [{"prompt": p["turns"], "answers": p["answers"]} for p in prompts] * (request["steps"] + 2)
    )
    options: dict[str, Any] = {"min_new_tokens": tokens} if request["full"] else {}
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=len(prompts) * group, num_generations=group,
            max_completion_length=tokens, learning_rate=request["learning_rate"], beta=0.0, temperature=1.0, top_k=0,
            loss_type="dapo", max_steps=request["steps"] + 1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
            gradient_checkpointing=False, shuffle_dataset=False, generation_kwargs=options, disable_tqdm=True,
            logging_strategy="no", weight_decay=0.01, max_grad_norm=1.0, lr_scheduler_type="constant",
        )  # fmt: skip
        trainer = GRPOTrainer(
            request["model"], reward_funcs=reward, args=config, train_dataset=rows, callbacks=[Ends()]
        )
        trainer.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = [after - before for before, after in pairwise(ends)]
    import trl

    print(json.dumps({"seconds": seconds, "peak_mib": peak, "imports_mib": base, "version": trl.__version__}))


if __name__ == "__main__":
    main()
