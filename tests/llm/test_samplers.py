"""The law of the next token: warpers against hand values, and the exact draw on a Zipf law of 50,000 tokens."""

import pytest
import torch
from scipy.stats import chi2, ncx2

from fgrpo_theory.foundation import seeds
from llm.samplers import Warping, draw, log_law, warped

TOKENS, DRAWS, FALSE_ALARM = 50_000, 1_000_000, 1e-7
LAW = [0.4, 0.3, 0.2, 0.1]


def of(law, **options):
    result = warped(torch.tensor([law], dtype=torch.float64).log(), Warping(**options))[0]
    return pytest.approx([float(value) for value in result], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, LAW),
        ({"top_k": 2}, [0.4, 0.3, 0, 0]),
        ({"top_k": 9}, LAW),
        ({"top_p": 0.4}, [0.4, 0, 0, 0]),
        ({"top_p": 0.41}, [0.4, 0.3, 0, 0]),
        ({"top_p": 0.89}, [0.4, 0.3, 0.2, 0]),
        ({"top_p": 1e-9}, [0.4, 0, 0, 0]),
        ({"top_k": 2, "top_p": 0.5}, [0.4, 0, 0, 0]),  # 0.4 of 0.7 is more than half
        ({"min_p": 0.5}, [0.4, 0.3, 0.2, 0]),
        ({"min_p": 0.6}, [0.4, 0.3, 0, 0]),
        ({"top_k": 3, "min_p": 0.9}, [0.4, 0, 0, 0]),
    ],
)
def test_warpers(options, expected):
    assert expected == of(LAW, **options)
    assert list(reversed(expected)) == of(list(reversed(LAW)), **options)


def test_ties_go_to_the_lower_id():
    assert of([0.25] * 4, top_k=2) == [0.25, 0.25, 0, 0]
    assert of([0.25] * 4, top_p=0.5) == [0.25, 0.25, 0, 0]


def test_temperature_of_the_case_list():
    assert round(float(log_law(torch.tensor([[2.0, 1.0, 0.0]]), 0.5)[0, 1]), 4) == -2.1429


def test_draw_inverts_the_cumulative_sum():
    law = torch.tensor([[0.0, 2.0, 0.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    uniforms = torch.tensor([[0.0, 0.4999999, 0.5, 0.7499999, 0.75, 1 - 2**-53]], dtype=torch.float64)
    assert draw(law, uniforms)[0].tolist() == [1, 1, 3, 3, 4, 4]


def test_a_token_of_mass_zero_is_never_drawn_at_the_upper_end():
    law = torch.full((1, 1001), 0.1, dtype=torch.float64)
    law[0, -1] = 0.0
    assert draw(law, torch.tensor([[1 - 2**-53]], dtype=torch.float64)).item() == 999


def test_events_far_below_float32_resolution_have_their_probability():
    """A token of probability 1e-12 occupies exactly that share of the unit interval."""
    logits = torch.tensor([[0.0, float(torch.tensor(1e-12).log()), -20.0]], dtype=torch.float64)
    law = warped(log_law(logits, 1.0), Warping())
    edge = float(law[0, 0] / law.sum())
    inside = torch.tensor([[edge - 2e-13, edge + 5e-13, edge + 2e-12]], dtype=torch.float64)
    assert draw(law, inside)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="logits must be finite, got mass=nan"):
        draw(log_law(torch.tensor([[1.0, bad]]), 1.0).exp(), torch.zeros(1, 1, dtype=torch.float64))


def zipf():
    law = 1 / torch.arange(1, TOKENS + 1, dtype=torch.float64) ** 1.1
    return law / law.sum()


def bins_of(law):
    """Consecutive ranks joined until each bin expects at least 100 draws."""
    start = law.cumsum(0) - law
    raw = torch.unique((start * DRAWS / 200).long(), return_inverse=True)[1]
    expected = DRAWS * torch.bincount(raw, weights=law)
    last = len(expected) - 1
    return raw.clamp(max=last - 1) if expected[last] < 100 else raw


def critical(bins):
    return chi2.isf(FALSE_ALARM, bins - 1)


WRONG = {
    "upper half lifted by 3 %": lambda law: law * torch.where(law.cumsum(0) > 0.5, 1.03, 0.97),
    "rarest 2,000 tokens lost": lambda law: law * (torch.arange(TOKENS) < TOKENS - 2_000),
    "off by one id": lambda law: law.roll(1),
    "temperature 1.01": lambda law: law ** (1 / 1.01),
}


def test_zipf_law_is_drawn_exactly():
    law = zipf()
    bins = bins_of(law)
    expected = DRAWS * torch.bincount(bins, weights=law)
    assert expected.min() >= 50
    uniforms = torch.from_numpy(seeds.generator(4, "zipf test").random((1, DRAWS)))
    tokens = draw(warped(log_law(law.log()[None].float() + 3.0, 1.0), Warping()), uniforms)[0]
    counts = torch.bincount(bins[tokens], minlength=len(expected)).double()
    assert float(((counts - expected) ** 2 / expected).sum()) < critical(len(expected))


@pytest.mark.parametrize("name", WRONG)
def test_the_zipf_test_would_see_a_wrong_law(name):
    """Power at least 0.99 against each wrong law, from the noncentral chi-square."""
    law = zipf()
    bins = bins_of(law)
    expected = DRAWS * torch.bincount(bins, weights=law)
    wrong = WRONG[name](law)
    other = DRAWS * torch.bincount(bins, weights=wrong / wrong.sum(), minlength=len(expected))
    shift = float(((other - expected) ** 2 / expected).sum())
    assert ncx2.sf(critical(len(expected)), len(expected) - 1, shift) > 0.99
