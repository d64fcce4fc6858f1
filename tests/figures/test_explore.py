"""The interactive page as a file: whole, small, closed to the network, and the committed copy is the present one."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

import fgrpo
from figures.explore import render_page, write_page

COMMITTED = Path(__file__).parents[2] / "docs/explore.html"


def test_the_committed_page_is_what_the_command_writes(tmp_path: Path) -> None:
    assert fgrpo.main(["figures", "explore", "--out", str(tmp_path / "new/explore.html")]) == 0
    written = (tmp_path / "new/explore.html").read_bytes()
    assert written == COMMITTED.read_bytes(), "fgrpo figures explore --out docs/explore.html brings it up to date"
    assert len(written) < 100_000


def test_the_policy_allows_exactly_its_own_style_and_script() -> None:
    page = render_page()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (block,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert not re.search(r"<[^>]+\s(style|on\w+)=", page), "inline styles and handlers would be blocked"
    assert "{{" not in page


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="out must be a file"):
        write_page(tmp_path)
    assert fgrpo.main(["figures", "explore", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
