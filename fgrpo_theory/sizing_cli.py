"""`fgrpo theory size`: what a run costs, for every given model, group size and response length.

The formulas are those of `sizing`; `--explain` prints them beside their values. Left out on purpose: prices.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

from .foundation.checks import as_choice, require
from .foundation.files import read_json
from .foundation.printing import Row, add_form, render
from .sizing import (
    GPUS,
    MODELS,
    ModelShape,
    Workload,
    activation_bytes,
    fewest_gpus,
    rollout_bytes,
    sampling_flop,
    shape_of_config,
    shape_of_size,
    state_bytes,
    step_time,
    trainer_for,
    training_flop,
)

_PAPER_STEPS = 1530  # 39,202 prompts in batches of 256, whole batches only, 10 epochs


def add_size(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `size` to the `fgrpo theory` parser."""
    parser = commands.add_parser(
        "size",
        help="rollouts, tokens, FLOP, memory, GPUs and hours of a training run",
        description="Sizes a GRPO run from the shape of its model; a row for every model, group size and response length. "
        "Example: fgrpo theory size --model qwen2.5-7b --group-size 8 32 --response 8192 --gpus 16",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", nargs="+", metavar="NAME", help=f"models by name: {', '.join(MODELS)}")
    which.add_argument(
        "--model-parameters", nargs="+", type=float, metavar="P", help="or sizes alone, given a typical shape (7e9)"
    )
    which.add_argument(
        "--config", nargs="+", type=Path, metavar="FILE", help="or config.json files (llama, qwen2, qwen3)"
    )
    _add_work(parser)
    parser.add_argument("--gpu", default="h100", metavar="KIND", help=f"{', '.join(GPUS)} (h100)")
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs that you have (the fewest that hold the run)")
    parser.add_argument("--flop-share", type=float, default=0.35, help="share of peak FLOP that you reach (0.35)")
    parser.add_argument(
        "--bandwidth-share", type=float, default=0.6, help="share of memory bandwidth in sampling (0.6)"
    )
    parser.add_argument("--explain", action="store_true", help="one run, a line a quantity, with its formula")
    add_form(parser)
    parser.set_defaults(run=run_size)


def _add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=256, help="prompts a step (256)")
    parser.add_argument("--group-size", type=int, nargs="+", default=[8], metavar="N", help="rollouts a prompt (8)")
    parser.add_argument("--prompt-tokens", type=int, default=200, help="mean tokens of a prompt (200)")
    parser.add_argument(
        "--response",
        type=int,
        nargs="+",
        default=[4096],
        metavar="TOKENS",
        help="mean tokens of a response; your cap gives an upper bound (4096)",
    )
    parser.add_argument(
        "--steps", type=int, default=_PAPER_STEPS, help="steps of the run (1530: the paper's 10 epochs)"
    )
    parser.add_argument("--micro-tokens", type=int, default=16384, help="tokens of one pass on one GPU (16384)")
    parser.add_argument("--no-checkpointing", action="store_true", help="keep activations instead of recomputing them")


def run_size(arguments: argparse.Namespace) -> None:
    """Print the rows, or one run with its formulas."""
    gpu = as_choice("gpu", arguments.gpu, tuple(GPUS))
    require(arguments.steps >= 1, "steps must be at least 1", steps=arguments.steps)
    runs = list(itertools.product(_shapes(arguments), _works(arguments)))
    if not arguments.explain:
        print(
            render([_row(name, shape, work, gpu, arguments) for (name, shape), work in runs], arguments.form, digits=5)
        )
        return
    require(len(runs) == 1, "explain takes one model, group size and response", runs=len(runs))
    ((name, shape), work) = runs[0]
    print(render(list(_explained(name, shape, work, gpu, arguments)), arguments.form, digits=5))


def _shapes(arguments: argparse.Namespace) -> Iterator[tuple[str, ModelShape]]:
    for name in arguments.model or []:
        yield name, MODELS[as_choice("model", name, tuple(MODELS))]
    for size in arguments.model_parameters or []:
        yield f"typical {size / 1e9:g}B", shape_of_size(size)
    for path in arguments.config or []:
        config = read_json(path)
        require(isinstance(config, dict), "config must be a JSON object", config=str(path))
        yield path.resolve().parent.name, shape_of_config(config)


def _works(arguments: argparse.Namespace) -> Iterator[Workload]:
    for group_size, response in itertools.product(arguments.group_size, arguments.response):
        yield Workload(
            arguments.prompts,
            group_size,
            arguments.prompt_tokens,
            response,
            arguments.micro_tokens,
            not arguments.no_checkpointing,
        )


def _row(name: str, shape: ModelShape, work: Workload, gpu: str, arguments: argparse.Namespace) -> Row:
    least = fewest_gpus(shape, work, GPUS[gpu])
    gpus = least if arguments.gpus is None else arguments.gpus
    seconds = step_time(
        shape,
        work,
        GPUS[gpu],
        gpus,
        flop_share=arguments.flop_share,
        bandwidth_share=arguments.bandwidth_share,
    )
    total = seconds.sampling + seconds.training
    return {
        "model": name,
        "P_1e9": shape.parameters / 1e9,
        "N": work.group_size,
        "response": work.response,
        "least_GPUs": least,
        "GPUs": gpus,
        "trainer": trainer_for(least, gpus),
        "sample_s": seconds.sampling,
        "train_s": seconds.training,
        "run_days": total * arguments.steps / 86400,
        "rollouts": work.rollouts,
        "tokens_1e6": work.rollouts * work.response / 1e6,
        "PFLOP_sample": sampling_flop(shape, work) / 1e15,
        "PFLOP_train": training_flop(shape, work) / 1e15,
        "state_GB": state_bytes(shape) / 1e9,
        "rollout_GB": rollout_bytes(shape, work) / 1e9,
        "copy_GPUs": seconds.copy_gpus,
    }


def _explained(name: str, shape: ModelShape, work: Workload, gpu: str, arguments: argparse.Namespace) -> Iterator[Row]:
    row = _row(name, shape, work, gpu, arguments)
    passes = "5 with recomputed activations" if work.checkpointing else "4"
    lines = [
        ("parameters P, 1e9", row["P_1e9"], "from the shape: layers, widths, vocabulary"),
        ("rollouts a step", row["rollouts"], "prompts N"),
        ("tokens sampled a step, 1e6", row["tokens_1e6"], "prompts N r"),
        ("tokens sampled in all, 1e9", work.rollouts * work.response * arguments.steps / 1e9, "the same times steps"),
        ("PFLOP of sampling a step", row["PFLOP_sample"], "2 P' a token + 4 L w a position attended to"),
        ("PFLOP of training a step", row["PFLOP_train"], f"forward FLOP of prompt and response, times {passes}"),
        ("GB of training state", row["state_GB"], "16 P, over all GPUs"),
        (
            "GB of activations on a GPU",
            activation_bytes(shape, work) / 1e9,
            "micro-batch tokens (2 L d + one layer + 8 V)",
        ),
        ("GB of cache of a rollout", row["rollout_GB"], "4 L v (p + r)"),
        (
            "GPUs of a copy for sampling",
            row["copy_GPUs"],
            "the least power of two of which 2 P fill at most half",
        ),
        ("fewest GPUs", row["least_GPUs"], "16 P / GPUs + activations <= 0.9 memory"),
        (
            "seconds of sampling a step",
            row["sample_s"],
            f"on {row['GPUs']} GPUs; bandwidth share {arguments.bandwidth_share:g}",
        ),
        ("seconds of training a step", row["train_s"], f"FLOP / (GPUs peak {arguments.flop_share:g})"),
        ("days of the run", row["run_days"], f"{arguments.steps} steps"),
    ]
    for quantity, value, formula in lines:
        yield {"quantity": quantity, "value": value, "formula": formula}
