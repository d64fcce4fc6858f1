"""Time and memory of `fgrpo diagnose` on a large log: 10 million rows in TRL's layout, one parquet file a step.

    python benchmarks/bench_diagnose.py                   acceptance: under 60 s of CPU time and 1 GiB (makes a 1 GB log first)
    python benchmarks/bench_diagnose.py --rows 1000000    a tenth of it, no limit judged
    python benchmarks/bench_diagnose.py --log FOLDER      keeps the log there, and uses one that is there

The log: 1,250 prompts a step out of 12,500 (100 bytes of text each), 8 rollouts each, mu ~ Beta(0.5, 1), completions of 64
bytes; a right one is one of 50 kinds a prompt, a wrong one is unique. The limit is judged on CPU seconds of the whole
process and its children, so that a machine that others use decides nothing; wall time stands beside it.

The bound: every byte of the needed columns must be decoded and hashed once. The rival that is timed beside it does the
least that any such tool must: it reads the same columns by pyarrow, one file at a time, and does nothing with them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fgrpo_theory.foundation.printing import render

GROUP_SIZE, PROMPTS_A_STEP, PROMPTS, KINDS, WORDS = 8, 1250, 12_500, 50, 4
MOST_SECONDS, MOST_GIB = 60.0, 1.0
HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)

READ_ONLY = """
import sys, pathlib, pyarrow.parquet as pq
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    with pq.ParquetFile(path, pre_buffer=False, read_dictionary=["prompt", "completion"]) as file:
        for batch in file.iter_batches(2**16, columns=["step", "prompt", "completion", "accuracy"]):
            pass
"""


def text(words: NDArray[np.uint64]) -> pa.Array:
    """One hexadecimal text a row of 64-bit words."""
    data = words.view(np.uint8).reshape(len(words), -1)
    digits = np.stack([HEX[data >> 4], HEX[data & 15]], axis=-1).reshape(len(words), -1)
    offsets = np.arange(len(words) + 1, dtype=np.int32) * digits.shape[1]
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits)))


def write_log(folder: Path, steps: int) -> None:
    """A file a step."""
    rng = np.random.default_rng(0)
    prompts = pa.array([f"Question {i}: " + "what is asked here " * 4 + "please?" for i in range(PROMPTS)])
    mu = rng.beta(0.5, 1, PROMPTS)
    for step in range(1, steps + 1):
        which = np.repeat(rng.choice(PROMPTS, PROMPTS_A_STEP, replace=False), GROUP_SIZE)
        right = rng.random(which.size) < mu[which]
        words = rng.integers(0, 2**63, (which.size, WORDS), dtype=np.uint64)
        kind = np.minimum(rng.geometric(0.2, which.size), KINDS)
        words[right] = 0
        words[right, 0], words[right, 1] = which[right], kind[right]
        table = pa.table(
            {
                "step": np.full(which.size, step), "prompt": prompts.take(pa.array(which)), "completion": text(words),
                "accuracy": right.astype(np.float64), "advantage": rng.normal(size=which.size),
            }
        )  # fmt: skip
        pq.write_table(table, folder / f"completions_{step:05d}.parquet")


def measured(command: list[str]) -> dict[str, float]:
    """CPU seconds, wall seconds and peak memory of a command; its output is dropped. Raises if it fails."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).resolve().parents[1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # ru_maxrss is the largest child so far, so the smaller command runs first.
    return {
        "CPU s": cpu,
        "wall s": time.perf_counter() - start,
        "peak GiB": after.ru_maxrss / 2**20,
    }


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the log (10000000)")
    parser.add_argument("--log", type=Path, help="folder of the log (a temporary one)")
    arguments = parser.parse_args()
    steps = -(-arguments.rows // (GROUP_SIZE * PROMPTS_A_STEP))
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.log or Path(scratch) / "log"
        if not folder.exists():
            folder.mkdir(parents=True)
            write_log(folder, steps)
        files = list(folder.iterdir())
        size = sum(path.stat().st_size for path in files) / 2**30
        read = measured([sys.executable, "-c", READ_ONLY, str(folder)])
        ours = measured([sys.executable, "-m", "fgrpo", "diagnose", str(folder), "--json"])
    rows = [{"what": "reading the columns alone", **read}, {"what": "fgrpo diagnose", **ours}]
    print(f"{len(files)} files, {steps * GROUP_SIZE * PROMPTS_A_STEP} rows, {size:.2f} GiB on disk")
    print(render(rows, digits=3))
    if arguments.rows < 10_000_000:
        return 0
    return int(ours["CPU s"] > MOST_SECONDS or ours["peak GiB"] > MOST_GIB)


if __name__ == "__main__":
    sys.exit(main())
