"""Every relative link of README and docs leads to a file that is in the repository, and every command there is known."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import fgrpo

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_committed_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = (page.parent / target).resolve()
        assert path.exists(), f"{target} does not exist"
        ignored = subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=ROOT, check=False)
        assert ignored.returncode != 0, f"{target} is ignored by git"


def anchors(page: Path) -> set[str]:
    """What a repository's web page calls the headings of a Markdown file."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_anchors_of_links_are_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        pointed = (page.parent / target).resolve() if target else page
        if pointed.suffix == ".md":
            assert anchor in anchors(pointed), f"{target}#{anchor}"


def test_readme_commands_are_understood() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [shlex.split(words) for words in re.findall(r"`fgrpo ([^`]+)`", text)]
    assert len(commands) > 15
    for words in commands:
        if "--help" in words or "COMMAND" in words:
            continue
        fgrpo.build_parser(words[0]).parse_args(words)


@pytest.mark.parametrize("out", ["", " ", "README.md", "/dev/null"])
def test_reproduce_refuses_a_wrong_folder_before_the_work(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["reproduce", "--out", str(ROOT / out) if out == "README.md" else out]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "out must be a folder" in printed.err
