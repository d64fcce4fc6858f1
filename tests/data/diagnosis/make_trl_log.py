"""How tests/data/diagnosis/trl came to be: TRL's own GRPOTrainer on SmolLM2-135M-Instruct, three steps, rewarded for a sum.

    python tests/data/diagnosis/make_trl_log.py MODEL_FOLDER OUT      (in an environment with trl 1.16)

MODEL_FOLDER is what `fgrpo llm fetch-model smollm2-135m` prints. TRL writes OUT/completions/completions_0000N.parquet.
"""

from __future__ import annotations

import re
import sys
from typing import Any

EXAMPLES = ((5, "2+3"), (9, "4+5"))


def turns(total: int) -> list[dict[str, str]]:
    """A question with two solved ones before it."""
    found = [{"role": "system", "content": "Give two whole numbers that add to the number. Answer with a+b only."}]
    for number, answer in EXAMPLES:
        found += [{"role": "user", "content": str(number)}, {"role": "assistant", "content": answer}]
    return [*found, {"role": "user", "content": str(total)}]


def is_sum(completions: list[Any], **_: Any) -> list[float]:
    """1 if the completion is two whole numbers with a plus: SmolLM2 manages that in about a third of its tries."""
    texts = [turns[0]["content"].strip() for turns in completions]
    return [float(re.fullmatch(r"\d+ ?\+ ?\d+", text) is not None) for text in texts]


def main() -> None:
    """Train and log."""
    # Here, as the tests' own environment has no trl.
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, out = sys.argv[1:]
    rows = Dataset.from_list([{"prompt": turns(total)} for total in (6, 7, 8, 10, 11, 12)])
    config = GRPOConfig(
        output_dir=out, per_device_train_batch_size=8, num_generations=8, max_completion_length=8, max_steps=3,
        learning_rate=1e-5, temperature=1.0, log_completions=True, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True, seed=0,
    )  # fmt: skip
    GRPOTrainer(model, reward_funcs=is_sum, args=config, train_dataset=rows).train()


if __name__ == "__main__":
    main()
