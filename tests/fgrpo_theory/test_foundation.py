"""Atomic files, run folders, seeds, provenance, printing and checks."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from fgrpo_theory.foundation import checks, files
from fgrpo_theory.foundation.printing import number, render
from fgrpo_theory.foundation.provenance import commit, config_hash, provenance
from fgrpo_theory.foundation.runs import RunFolder
from fgrpo_theory.foundation.seeds import generator, seed_sequence

ROOT = Path(__file__).parents[2]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("mode", "old", "new"), [("w", "old\n", "new\n"), ("wb", b"old", b"\x00\xff")])
def test_a_file_is_replaced_whole(mode: str, old: str | bytes, new: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (old, new):
        with files.atomic_file(path, mode) as file:
            file.write(content)
            assert not path.exists() or path.read_bytes() != content
        assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert names(tmp_path) == ["file"]


def test_an_error_in_the_middle_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_text(path, "old")

    def half() -> None:
        with files.atomic_file(path) as file:
            file.write("half of the n")
            file.flush()
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_values_that_json_cannot_hold_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    files.write_json(path, {"a": 1})
    for bad in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            files.write_json(path, bad)
    assert files.read_json(path) == {"a": 1}
    assert names(tmp_path) == ["x.json"]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_text(path, "old")
    code = (
        "import sys, time; from fgrpo_theory.foundation.files import atomic_file\n"
        "with atomic_file(sys.argv[1]) as f:\n f.write('x' * 100000); f.flush(); print('half', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        writer.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    files.write_text(path, "new")
    assert path.read_text() == "new"


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        files.write_text(tmp_path / "missing" / "file", "text")
    assert names(tmp_path) == []


def test_json_takes_numpy_and_paths_and_sorts_keys(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"b": np.float64(0.1), "a": np.arange(3), "c": np.int64(7), "d": Path("p/q")})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == {"a": [0, 1, 2], "b": 0.1, "c": 7, "d": "p/q"}
    assert text.index('"a"') < text.index('"b"')
    assert text.endswith("}\n")


def test_tables_come_back_and_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    columns = {"N": np.array([2, 4]), "value": np.array([0.1, np.pi]), "name": ["a", "b"]}
    for name in ("one", "two"):
        files.write_table(tmp_path / name, columns)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    back = files.read_table(tmp_path / "one")
    assert list(back) == ["N", "value", "name"]
    for name, column in columns.items():
        np.testing.assert_array_equal(back[name], column)


def test_csv_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("N,value\n2,0.5\n4,1.5\n")
    assert {k: v.tolist() for k, v in files.read_table(tmp_path / "x.csv").items()} == {
        "N": [2, 4],
        "value": [0.5, 1.5],
    }


def test_a_run_is_partial_until_it_is_finished(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "runs" / "a", {"n": 8, "gamma": 0.5}) as run:
        run.log({"step": 0, "loss": np.float32(0.5)})
        assert (run.partial / "metrics.jsonl").read_text() == '{"step": 0, "loss": 0.5}\n'
        run.table("counts", {"k": [1, 2]})
        run.log({"step": 1, "loss": 0.25})
        assert names(tmp_path / "runs") == ["a.partial"]
    done = tmp_path / "runs" / "a"
    assert names(tmp_path / "runs") == ["a"]
    assert names(done) == ["config.json", "counts.parquet", "metrics.jsonl", "provenance.json"]
    assert [json.loads(line)["step"] for line in (done / "metrics.jsonl").read_text().splitlines()] == [0, 1]
    assert files.read_json(done / "config.json") == {"n": 8, "gamma": 0.5}
    assert files.read_json(done / "provenance.json")["config_hash"] == config_hash({"gamma": 0.5, "n": 8})


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    RunFolder(tmp_path / "a", {}).finish()
    with pytest.raises(FileExistsError, match="already finished"):
        RunFolder(tmp_path / "a", {})
    assert names(tmp_path) == ["a"]


def test_an_error_leaves_what_can_be_resumed_and_nothing_else(tmp_path: Path) -> None:
    def fail(resume: bool) -> None:
        with RunFolder(tmp_path / "a", {"n": 8}, resume=resume) as run:
            run.log({"step": 1})
            raise RuntimeError("power")

    for resume, lines in ((True, 1), (True, 2), (True, 3), (False, 0), (True, 1)):
        with pytest.raises(RuntimeError, match="power"):
            fail(resume)
        assert names(tmp_path) == (["a.partial"] if resume else [])
        if resume:
            assert len((tmp_path / "a.partial" / "metrics.jsonl").read_text().splitlines()) == lines


def test_a_partial_run_of_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "a", {"n": 8, "path": Path("x")})
    first.log({"step": 1})
    first.close()
    with pytest.raises(ValueError, match="config must equal that of the partial run"):
        RunFolder(tmp_path / "a", {"n": 16, "path": Path("x")}, resume=True)
    assert (tmp_path / "a.partial" / "metrics.jsonl").read_text() == '{"step": 1}\n'
    RunFolder(tmp_path / "a", {"path": Path("x"), "n": 8}, resume=True).finish()
    assert names(tmp_path) == ["a"]


def test_metrics_refuse_nan(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a", {})
    with pytest.raises(ValueError, match="JSON compliant"):
        run.log({"loss": float("nan")})
    run.close()


def test_a_stream_is_the_documented_formula() -> None:
    sequence = np.random.SeedSequence(7, spawn_key=(crc32(b"rollouts"), 3, 1))
    assert seed_sequence(7, "rollouts", 3, 1).generate_state(8).tolist() == sequence.generate_state(8).tolist()
    expected = np.random.Generator(np.random.PCG64(sequence)).random(5)
    np.testing.assert_array_equal(generator(7, "rollouts", 3, 1).random(5), expected)


def test_a_stream_never_changes() -> None:
    """A golden value: whoever breaks it changes every published result."""
    assert crc32(b"rollouts") == 1719529855
    assert generator(0, "rollouts", 3).integers(0, 2**32, 4).tolist() == [
        2636097034,
        2758502611,
        1182054209,
        2146772288,
    ]


def test_streams_are_apart_and_do_not_depend_on_each_other() -> None:
    keys = [
        (root, name, *index) for root in (0, 1) for name in ("a", "b") for index in ((), (0,), (1,), (0, 0), (0, 1))
    ]
    before = [generator(*key).random() for key in keys]
    assert len(set(before)) == len(keys)
    generator(0, "another").random(1000)
    np.random.SeedSequence(0).spawn(3)
    assert [generator(*key).random() for key in reversed(keys)] == before[::-1]
    one, two = generator(0, "a", 0).random(100_000), generator(0, "a", 1).random(100_000)
    # Five standard deviations of the correlation of independent streams: 1 / sqrt(100,000) each.
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / 100_000**0.5


@pytest.mark.parametrize(("name", "arguments"), [("root", (-1, "a")), ("index", (0, "a", -2)), ("name", (0, ""))])
def test_bad_seeds_are_named(name: str, arguments: tuple) -> None:
    with pytest.raises(ValueError, match=rf"^{name} .*, got {name}=") as error:
        seed_sequence(*arguments)
    assert "\n" not in str(error.value)


def test_the_configuration_hash_does_not_know_the_order_of_keys() -> None:
    assert config_hash({"a": 1, "b": [0.5, "x"]}) == config_hash({"b": [0.5, "x"], "a": 1})
    assert config_hash({"a": np.float64(0.5), "p": Path("x")}) == config_hash({"a": 0.5, "p": "x"})
    assert len({config_hash(c) for c in ({"a": 1}, {"a": 2}, {"b": 1}, {})}) == 4
    assert len(config_hash({})) == 12


def test_provenance_says_where_a_result_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/some/where/fgrpo", "theory", "prove"])
    record = json.loads(json.dumps(provenance(seed=3)))
    assert record["command"] == "fgrpo theory prove"
    assert record["seed"] == 3
    assert record["versions"]["numpy"] == np.__version__
    assert record["machine"]["cores"] == os.cpu_count()
    written = datetime.datetime.fromisoformat(record["time"])
    assert abs(written - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=1)
    assert record["commit"] == commit()


def test_the_commit_is_that_of_the_checkout_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert commit().rstrip("+") == (head.stdout.strip() or "unknown")


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit.__wrapped__() == "unknown"


ROWS = [{"N": 8, "name": "a", "x": 1 / 3, "y": None}, {"N": 1000000, "name": "long", "x": np.float64(1e-20), "y": True}]


def test_tables_are_aligned() -> None:
    assert render(ROWS, digits=3) == (
        "      N  name      x     y\n"
        "      8  a     0.333     -\n"
        "1000000  long  1e-20  True"
    )  # fmt: skip
    assert render([]) == "(no rows)"


def test_json_and_csv_keep_every_digit() -> None:
    assert json.loads(render(ROWS, "json")) == [dict(row) for row in ROWS]
    assert render(ROWS, "csv") == f"N,name,x,y\n8,a,{1 / 3!r},\n1000000,long,1e-20,True"
    with pytest.raises(ValueError, match="form must be one of table, json, csv, got form='xml'"):
        render(ROWS, "xml")


SHOWN = [
    (1 / 3, "0.333333"),
    (np.float64(1e6), "1e+06"),
    (1234567, "1234567"),
    (np.int64(5), "5"),
    (None, "-"),
    (True, "True"),
    ("x", "x"),
    (0.0, "0"),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN)
def test_numbers_as_people_read_them(value: object, shown: str) -> None:
    assert number(value, 6) == shown


def test_checks_pass_what_is_good_and_keep_shapes() -> None:
    assert checks.as_float("x", [[1, 2], [3, 4]]).shape == (2, 2)
    assert checks.as_whole("n", 2**53) == 2.0**53
    assert checks.as_probability("p", [0.0, 1.0]).tolist() == [0.0, 1.0]
    assert checks.as_gamma(0) == 0.0
    assert checks.as_choice("kind", "a", ("a", "b")) == "a"
    one, two = checks.together(a=np.zeros((2, 1)), b=np.zeros(3))
    assert one.shape == two.shape == (2, 3)


@pytest.mark.parametrize("ends", [0.0, 1.0])
def test_open_ends_are_open(ends: float) -> None:
    with pytest.raises(ValueError, match=rf"^p must lie in \(0, 1\), got p={ends:g}$"):
        checks.as_probability("p", ends, open_ends=True)
