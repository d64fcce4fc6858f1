"""A training step of SmolLM2-135M against TRL's GRPOTrainer: 4 prompts x 8 rollouts x at most 16 tokens, fp32, same threads.

    python -m venv venv-trl && venv-trl/bin/pip install 'trl==1.16.*' 'torch==2.13.0'
    python benchmarks/compare_steps.py --trl venv-trl/bin/python          (about 6 minutes on two cores)

Two workloads, each with processes of its own, taken in turns (ours, TRL's, ours, TRL's):
    task    `sums` as the start policy answers it: rollouts end by themselves, most groups are all wrong
    full    every rollout has 16 tokens and every group is active: nothing to leave out
Both sides: AdamW, no KL, the same prompts, no gradient checkpointing. The first step of each process is not counted.

The bound, in floating-point operations: a token costs 2 P_body forward and 4 P_body backward, the head 6 V d on scored
positions alone. With each different prompt token and each completion token computed once in sampling (forward) and once in
training (forward and backward) a step costs
    (2 + 6) P_body (prompt + completion tokens) + (2 + 6) V d completion tokens
at the rate of a large float32 matrix product on this machine, measured in the same run. Exit code 1 if the ratio on `task`
is below 4 or the peak memory above TRL's.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.printing import render

PROMPTS, GROUP_SIZE, MAX_NEW_TOKENS, LEARNING_RATE = 4, 8, 16, 1e-5
LIMIT = 4.0


def ours(request: dict[str, Any]) -> dict[str, Any]:
    """Steps of our trainer: seconds of each, tokens computed, peak memory in MiB."""
    import torch

    from llm.config import ModelConfig, OptimizerConfig, SamplingConfig, TrainConfig
    from llm.distributed import World
    from llm.memory import keep_freed_memory
    from llm.models import LanguageModel, encode_prompt, load_model
    from llm.packing import PackedPrompts
    from llm.tasks import SumsTask
    from llm.tasks.base import Verdict
    from llm.trainer import Trainer

    torch.set_num_threads(request["threads"])
    keep_freed_memory()
    policy, task, full = load_model(request["model"]), SumsTask(), request["full"]
    problems = [task.problem(total) for total in request["totals"]]

    class Fixed:
        """The request's problems at every step; on `full` every other answer is right."""

        name = "bench"

        def train_prompts(self, seed: int) -> list[Any]:
            return problems

        def heldout(self) -> list[Any]:
            return problems

        def verify(self, problems: Any, texts: Any) -> list[Verdict]:
            if full:
                return [Verdict(place % 2 == 1, float(place % 2)) for place in range(len(texts))]
            return task.verify(problems, texts)

        def close(self) -> None: ...

    if full:
        policy = LanguageModel(policy.model, policy.tokenizer, (), policy.pad_id)
    config = TrainConfig(
        model=ModelConfig(source=request["model"]), optimizer=OptimizerConfig(learning_rate=LEARNING_RATE),
        sampling=SamplingConfig(group_size=GROUP_SIZE, max_new_tokens=MAX_NEW_TOKENS),
        steps=request["steps"] + 1, prompts_per_step=PROMPTS, log_entropy=False,
    )  # fmt: skip
    trainer = Trainer(policy, Fixed(), config, World(device=policy.model.device))
    seconds, tokens = [], []
    for index in range(config.steps):
        start = time.perf_counter()
        tokens.append(trainer.step(index)["tokens"])
        seconds.append(time.perf_counter() - start)
    prompts = [encode_prompt(policy.tokenizer, problem.prompt) for problem in problems]
    sizes = {"prompt": len(PackedPrompts(prompts).token_ids), "completion": statistics.mean(tokens[1:])}
    body = policy.model.model
    weights = sum(p.numel() for p in body.parameters()) - body.embed_tokens.weight.numel()
    head = policy.model.get_output_embeddings().weight.numel()
    operations = 8 * weights * (sizes["prompt"] + sizes["completion"]) + 8 * head * sizes["completion"]
    return {"seconds": seconds[1:], "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "gflop": operations / 1e9, **sizes}  # fmt: skip


def product_rate(threads: int) -> float:
    """GFLOP a second of a large float32 matrix product."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(1024, 576), torch.randn(576, 4096)
    left @ right
    times = []
    for _ in range(20):
        start = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - start)
    return 2 * 1024 * 576 * 4096 / statistics.median(times) / 1e9


def in_process(words: list[str], request: dict[str, Any]) -> dict[str, Any]:
    """Run one side with the request; its last line is its answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "request.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        done = subprocess.run([*words, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def measure(arguments: argparse.Namespace, model: str, full: bool) -> dict[str, Any]:
    """Both sides in turns on one workload."""
    from llm.tasks import SumsTask

    task = SumsTask()
    problems = [task.problem(total) for total in task.train_totals()[:PROMPTS]]
    request = {
        "model": model, "full": full, "threads": arguments.threads, "steps": arguments.steps, "group_size": GROUP_SIZE,
        "max_new_tokens": MAX_NEW_TOKENS, "learning_rate": LEARNING_RATE, "totals": [p.answer for p in problems],
        "prompts": [{"turns": p.prompt, "answers": task.correct_answers(p)} for p in problems],
    }  # fmt: skip
    sides: dict[str, list[dict[str, Any]]] = {"ours": [], "trl": []}
    for turn in range(arguments.turns):
        print(f"{'full' if full else 'task'}: turn {turn + 1} of {arguments.turns}", file=sys.stderr)
        sides["ours"].append(in_process([sys.executable, __file__, "--side"], request))
        sides["trl"].append(in_process([arguments.trl, str(Path(__file__).with_name("trl_step.py"))], request))
    seconds = {name: statistics.median([s for run in runs for s in run["seconds"]]) for name, runs in sides.items()}
    peaks = {name: max(run["peak_mib"] for run in runs) for name, runs in sides.items()}
    first = sides["ours"][0]
    return {"workload": "full" if full else "task", "ours_s": seconds["ours"], "trl_s": seconds["trl"],
            "ratio": seconds["trl"] / seconds["ours"], "ours_mib": peaks["ours"], "trl_mib": peaks["trl"],
            "prompt_tokens": first["prompt"], "completion_tokens": first["completion"], "gflop": first["gflop"],
            "trl": sides["trl"][0]["version"]}  # fmt: skip


def main() -> int:
    """Measure both workloads and print the table."""
    if sys.argv[1:2] == ["--side"]:
        print(json.dumps(ours(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trl", required=True, metavar="PYTHON", help="interpreter of an environment with TRL")
    parser.add_argument("--model", metavar="FOLDER", help="SmolLM2 as a folder (fetched)")
    parser.add_argument("--threads", type=int, default=2, metavar="T", help="threads of both sides (2)")
    parser.add_argument("--steps", type=int, default=3, metavar="K", help="counted steps a process (3)")
    parser.add_argument("--turns", type=int, default=2, metavar="R", help="processes of each side (2)")
    arguments = parser.parse_args()
    if arguments.model is None:
        from llm.fetch import fetch_smollm2

        arguments.model = str(fetch_smollm2())
    rate = product_rate(arguments.threads)
    rows = [measure(arguments, arguments.model, full) for full in (False, True)]
    for row in rows:
        row["bound_s"] = row["gflop"] / rate
        row["times_bound"] = row["ours_s"] / row["bound_s"]
    print(render(rows, "table"))
    print(f"matrix product: {rate:.0f} GFLOP/s with {arguments.threads} threads")
    return int(rows[0]["ratio"] < LIMIT or any(row["ours_mib"] > row["trl_mib"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
