"""An RL step on mazes (17 x 17, the paper's model, 8 prompts x 32 rollouts) against the plain pipeline, in the same run.

    fgrpo maze sft --preset paper --steps 40 --out results/maze/sft-paper          (a policy that knows the form of a path)
    python benchmarks/bench_maze_step.py --start results/maze/sft-paper/start       (some minutes on two cores)

The plain pipeline: transformers' `generate` with num_return_sequences=32 at temperature 1, then the log-probs of the full
sequences, a row a rollout, forward and backward in micro-batches of one prompt's rollouts, then clipping and AdamW. Both
sides start each step from the same weights, take the same mazes, decode up to the same 64 tokens, and judge by the same
verifier; they take turns, and the ratio is the median over turns. Exit code 1 if it is below 10 on the first or the second
workload.

Three workloads: "start", the policy given, judged by the maze's verifier (groups without a right path cost our side no
update); "active", the same policy with every other rollout called right, so that every group is trained on; and "fresh",
random weights that never end and hardly ever begin alike, every group active: nothing can be shared but the prompt.

The bound, in floating-point operations: with P weights in the blocks, L blocks of width d, each prompt token and each
completion token costs 2 P forward in sampling, 6 P forward and backward in training, and for each token that it looks back
to 4 L d forward and 8 L d backward: 8 P tokens + 16 L d looks in all, at the rate of a large float32 matrix product measured
in the same run. Beginnings that rollouts share are counted as often as they occur, and groups without advantage are counted
as well, so the first row may come close to 1 or fall below. The head (32 tokens wide) is left out.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare_steps import product_rate

from fgrpo_theory.focal import group_advantage
from fgrpo_theory.foundation.printing import render
from llm.config import TrainConfig
from llm.distributed import World
from llm.memory import keep_freed_memory
from llm.models import LanguageModel, encode_prompt
from llm.tasks.base import Problem, Verdict
from llm.trainer import Trainer, clip_gradient, make_optimizer
from maze.policy import SHAPES, load_policy, new_policy
from maze.presets import PRESETS, arm
from maze.task import MazeTask, maze_task

PROMPTS, GROUP_SIZE, LEAST_RATIO = 8, 32, 10.0
WORKLOADS = ("start", "active", "fresh")


class Chosen:
    """Given problems at every step; with `every_other` every other rollout is right, whatever it says."""

    name = "bench"

    def __init__(self, task: MazeTask, problems: list[Problem], every_other: bool) -> None:
        self.task, self.problems, self.every_other = task, problems, every_other

    def train_prompts(self, seed: int) -> list[Problem]:
        return self.problems

    def heldout(self) -> list[Problem]:
        return self.problems

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        if self.every_other:
            return [Verdict(place % 2 == 1, float(place % 2)) for place in range(len(texts))]
        return self.task.verify(problems, texts)

    def close(self) -> None: ...


@dataclass(frozen=True)
class Measured:
    """One step of one side."""

    seconds: float
    tokens: float
    """of completions, up to and with <eos>"""


def copied(policy: LanguageModel) -> LanguageModel:
    """The same weights, to be trained away."""
    return replace(policy, model=copy.deepcopy(policy.model))


def ours(policy: LanguageModel, task: Chosen, config: TrainConfig) -> Measured:
    """One step of our trainer."""
    trainer = Trainer(copied(policy), task, config, World(device=policy.model.device))
    start = time.perf_counter()
    numbers = trainer.step(0)
    return Measured(time.perf_counter() - start, numbers["tokens"])


def plain(policy: LanguageModel, task: Chosen, config: TrainConfig) -> Measured:
    """One step as one writes it with transformers alone."""
    policy = copied(policy)
    model, limit = policy.model, config.sampling.max_new_tokens
    optimizer = make_optimizer(model, config.optimizer)
    start = time.perf_counter()
    prompts = torch.stack([encode_prompt(policy.tokenizer, problem.prompt) for problem in task.problems])
    with torch.no_grad():
        sequences = model.generate(
            input_ids=prompts, attention_mask=torch.ones_like(prompts), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            num_return_sequences=GROUP_SIZE, max_new_tokens=limit, eos_token_id=list(policy.eos_ids) or None,
            pad_token_id=policy.pad_id,
        )  # fmt: skip
    completions = sequences[:, prompts.shape[1] :]
    mask = _mask(completions, policy.eos_ids)
    problems = [problem for problem in task.problems for _ in range(GROUP_SIZE)]
    verdicts = task.verify(problems, policy.tokenizer.batch_decode(completions, skip_special_tokens=True))
    rewards = torch.tensor([float(verdict.reward or 0.0) for verdict in verdicts]).view(PROMPTS, GROUP_SIZE)
    advantages = group_advantage(rewards, ddof=1, eps=1e-6).flatten()
    for rows in torch.arange(len(sequences)).split(GROUP_SIZE):
        logits = model(input_ids=sequences[rows]).logits[:, prompts.shape[1] - 1 : -1]
        lp = logits.float().log_softmax(-1).gather(-1, completions[rows][..., None])[..., 0]
        ratio = (lp - lp.detach()).exp()
        loss = -(ratio * advantages[rows, None] * mask[rows]).sum() / mask.sum()
        loss.backward()
    clip_gradient(list(model.parameters()), config.optimizer.max_grad_norm)
    optimizer.step()
    return Measured(time.perf_counter() - start, float(mask.sum()))


def _mask(completions: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """True up to and with the first <eos>."""
    ended = torch.isin(completions, torch.tensor(list(eos_ids), dtype=completions.dtype)).long()
    return (ended.cumsum(-1) - ended) == 0


def operations(policy: LanguageModel, tokens: float) -> float:
    """The bound's floating-point operations of one step with so many completion tokens."""
    config, prompt = policy.model.config, encode_prompt(policy.tokenizer, _problems(1)[0].prompt).numel()
    body = sum(p.numel() for name, p in policy.model.named_parameters() if "layers." in name)
    length = tokens / (PROMPTS * GROUP_SIZE)
    looks = PROMPTS * prompt**2 / 2 + tokens * (prompt + length / 2)
    return 8 * body * (PROMPTS * prompt + tokens) + 16 * config.num_hidden_layers * config.hidden_size * looks


def _problems(count: int) -> list[Problem]:
    return list(_task().train_prompts(0)[:count])


def _task() -> MazeTask:
    return maze_task(17, 64, 1, 1)


def measure(policy: LanguageModel, workload: str, turns: int, rate: float) -> dict[str, Any]:
    """Both sides in turns; the first turn is not counted."""
    if workload == "fresh":
        policy = replace(policy, eos_ids=())
    task = Chosen(_task(), _problems(PROMPTS), workload != "start")
    config = replace(arm(PRESETS["paper"].rl, "grpo", GROUP_SIZE, 0.0, 0), steps=1, prompts_per_step=PROMPTS)
    pairs = []
    for turn in range(turns + 1):
        print(f"{workload}: turn {turn} of {turns}", file=sys.stderr)
        pairs.append((ours(policy, task, config), plain(policy, task, config)))
    counted = pairs[1:]
    mine, theirs = (statistics.median(pair[side].seconds for pair in counted) for side in (0, 1))
    tokens = statistics.median(pair[0].tokens for pair in counted)
    bound = operations(policy, tokens) / rate / 1e9
    return {"workload": workload, "ours_s": mine, "plain_s": theirs,
            "ratio": statistics.median(b.seconds / a.seconds for a, b in counted),
            "completion_tokens": tokens, "plain_tokens": statistics.median(pair[1].tokens for pair in counted),
            "bound_s": bound, "times_bound": mine / bound}  # fmt: skip


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--start", metavar="FOLDER", help="a trained maze model of the paper's shape (else fresh weights alone)"
    )
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS, metavar="NAME",
                        help="start, active, fresh (all)")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2, metavar="T", help="threads of both sides (2)")
    parser.add_argument("--turns", type=int, default=3, metavar="R", help="counted turns (3)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    rate = product_rate(arguments.threads)
    policies = {"fresh": new_policy(SHAPES["paper"], 0)}
    if arguments.start:
        policies["start"] = policies["active"] = load_policy(arguments.start)
    chosen = [name for name in arguments.workloads if name in policies]
    rows = [measure(policies[name], name, arguments.turns, rate) for name in chosen]
    print(render(rows, "table"))
    print(f"matrix product: {rate:.0f} GFLOP/s with {arguments.threads} threads")
    return int(any(row["ratio"] < LEAST_RATIO for row in rows if row["workload"] != "fresh"))


if __name__ == "__main__":
    sys.exit(main())
