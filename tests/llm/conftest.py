"""Fixtures over the tiny models of `tests.llm.tiny`."""

from __future__ import annotations

import pytest
import torch

from tests.llm.tiny import build_tokenizer


@pytest.fixture
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def prompts():
    """Prompts of unequal length, one of a single token."""
    return [torch.tensor(ids) for ids in ([5], [7, 8, 9], [11, 12, 13, 14, 15, 16])]
