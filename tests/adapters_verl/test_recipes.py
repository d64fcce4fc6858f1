"""The command lines of docs/verl.md, composed and validated by verl itself."""

import re
import shlex
from pathlib import Path

import llm_verl_config as verls
import pytest
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

PAGE = Path(__file__).parents[2] / "docs" / "verl.md"
COMMAND = "python -m verl.trainer.main_ppo"
LINES = [
    shlex.split(block.replace("\\\n", " "))[3:]
    for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.S)
    if COMMAND in block
]
DAPO, CISPO = LINES


@pytest.mark.parametrize("lines", LINES)
def test_verl_accepts_the_command_line(lines):
    config = verls.composed(*lines, "trainer.n_gpus_per_node=8")
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    found = compute_advantage(verls.batch([1, 0, 0, 0], list("aaaa")), "fgrpo", config=config.algorithm)
    # One right of four: 3/4 of verl's 1.5.
    assert found.batch["advantages"][0, 0].item() == pytest.approx(1.125, abs=1e-4)


def test_dapo_counts_a_right_answer_of_full_length():
    config = verls.composed(*DAPO)
    full = config.data.max_response_length
    # Rewards after the penalty: right at full length 0, wrong -1 at full length, right 1, wrong 0.
    data = verls.batch([0, -1, 1, 0], list("aaaa"), [full, full, 5, 6], width=full)
    plain = verls.batch([0, -1, 1, 0], list("aaaa"), [full, full, 5, 6], width=full)
    found = compute_advantage(data, "fgrpo", config=config.algorithm).batch["advantages"]
    expected = compute_advantage(plain, "grpo", config=config.algorithm).batch["advantages"]
    torch.testing.assert_close(found, expected / 2, rtol=1e-6, atol=0)


def test_the_clipping_of_each_recipe():
    dapo, cispo = (omega_conf_to_dataclass(verls.composed(*lines).actor_rollout_ref.actor) for lines in (DAPO, CISPO))
    assert (dapo.clip_ratio_low, dapo.clip_ratio_high, dapo.policy_loss.loss_mode) == (0.2, 0.28, "vanilla")
    assert get_policy_loss_fn(cispo.policy_loss.loss_mode).__name__ == "compute_policy_loss_cispo"
    # Ratios of e^-20 to e^20 are clamped to [0, 6]; the gradient with respect to the log-probability shows the factor.
    ratio = torch.tensor([[0.001, 0.5, 1.0, 5.9, 50.0]])
    logprob = ratio.log().requires_grad_()
    loss, _ = get_policy_loss_fn("cispo")(
        old_log_prob=torch.zeros_like(ratio),
        log_prob=logprob,
        advantages=torch.ones_like(ratio),
        response_mask=torch.ones_like(ratio),
        loss_agg_mode="token-mean",
        config=cispo,
    )
    loss.backward()
    torch.testing.assert_close(-logprob.grad * 5, torch.tensor([[0.001, 0.5, 1.0, 5.9, 6.0]]))
