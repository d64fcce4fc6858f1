"""How tests/data/diagnosis/verl came to be: the rollouts of the TRL log beside it, written by verl 0.9.1's own function.

    python tests/data/diagnosis/make_verl_log.py RAY_TRAINER TRL_FOLDER OUT

RAY_TRAINER is verl/trainer/ppo/ray_trainer.py of the installed verl. Its `_write_generations` is taken alone, so that neither
verl's dependencies nor a GPU are needed; what it writes is what `trainer.rollout_data_dir` gets.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def writer(source: Path) -> Any:
    """verl's function, compiled from its source."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_write_generations")
    found.decorator_list = []
    names: dict[str, Any] = {"os": os, "json": json}
    exec(compile(ast.Module([found], []), str(source), "exec"), names)
    return names["_write_generations"]


def main() -> None:
    """Write one file a step."""
    source, log, out = map(Path, sys.argv[1:])
    for path in sorted(log.glob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        texts = ["\n".join(f"{turn['role']}\n{turn['content']}" for turn in row["prompt"]) for row in rows]
        writer(source)(
            inputs=[f"{text}\nassistant\n" for text in texts],
            outputs=[row["completion"][0]["content"] for row in rows],
            gts=[row["prompt"][-1]["content"] for row in rows],
            scores=[row["is_sum"] for row in rows],
            reward_extra_infos_dict={"length": [len(row["completion"][0]["content"]) for row in rows]},
            dump_path=str(out),
            global_steps=rows[0]["step"],
        )


if __name__ == "__main__":
    main()
