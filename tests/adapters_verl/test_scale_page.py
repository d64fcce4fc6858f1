"""The command lines of docs/scale.md, composed and validated by verl itself."""

import re
import shlex
from pathlib import Path

import llm_verl_config as verls
import pytest
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
LINES = [
    shlex.split(block.replace("\\\n", " "))[3:] for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.S)
]


def test_the_page_has_two_sizes():
    assert [verls.composed(*lines).trainer.nnodes for lines in LINES] == [2, 8]


@pytest.mark.parametrize("lines", LINES)
def test_verl_accepts_the_command_line(lines):
    config = verls.composed(*lines)
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    assert config.algorithm.adv_estimator == "fgrpo"
    assert config.actor_rollout_ref.rollout.n * config.data.train_batch_size == 2048
