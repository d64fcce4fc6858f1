"""One rank of a data-parallel check: gradients of a first update, metrics, and two full steps of a run.

WORLD_SIZE=2 RANK=0 MASTER_ADDR=... MASTER_PORT=... python llm_ranks.py OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from llm_runs import FirstDigit, without_sft
from safetensors.torch import save_file

from llm.checkpoint import trained_parameters
from llm.config import changed
from llm.distributed import start_world
from llm.metrics import Means
from llm.trainer import Trainer
from llm.training_run import make_policy

CASES = {
    "grpo": {},
    "sequence": {"objective.aggregation": "sequence", "mini_batch_prompts": 2, "epochs": 2},
    "dynamic": {"objective.dynamic_sampling": True, "sampling.group_size": 2, "max_draws": 20},
    "kl": {"objective.kl": 0.1},
}


def main() -> None:
    out = Path(sys.argv[1])
    with start_world(torch.device("cpu")) as world:
        report: dict[str, object] = {"metrics": {}}
        for name, settings in CASES.items():
            config = changed(without_sft(prompts_per_step=5 if name == "grpo" else 4), settings)
            trainer = Trainer(make_policy(config.model, 0, world.device), FirstDigit(), config, world)
            gradients: dict[str, torch.Tensor] = {}

            def keep(trainer: Trainer = trainer, gradients: dict[str, torch.Tensor] = gradients) -> None:
                for key, parameter in trained_parameters(trainer.model).items():
                    gradients.setdefault(key, parameter.grad.clone())

            trainer.optimizer.step = keep
            means = Means()
            batch = trainer.collector.collect(0, means)
            trainer.learn(batch, means)
            values = means.result(world)
            texts = {str(place): row for place, row in zip(batch.places, batch.rollouts.texts, strict=True)}
            gathered: list[dict[str, list[str]]] = [{} for _ in range(world.size)]
            if world.size > 1:
                torch.distributed.all_gather_object(gathered, texts)
            else:
                gathered = [texts]
            if world.is_first:
                out.mkdir(exist_ok=True)
                save_file(gradients, out / f"{name}.safetensors")
                report["metrics"][name] = values
                report.setdefault("texts", {})[name] = {k: v for part in gathered for k, v in part.items()}
        config = without_sft()
        trainer = Trainer(make_policy(config.model, 0, world.device), FirstDigit(), config, world)
        for index in range(2):
            trainer.step(index)
        report["trained"] = [float(p.detach().double().sum()) for p in trainer.model.parameters()]
        if world.is_first:
            (out / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
