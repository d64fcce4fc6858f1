"""Exact probabilities of every correct answer of a real language model, by teacher forcing.

For a task that can list the correct texts of a prompt (`tasks.sums`), a rollout is correct when its tokens spell one of
them and then an EOS. Its probability is a product of token probabilities, so mu_pos, the mass of each answer, the
unsampled-correct mass of a group and the retained positive mass M_ret are numbers without sampling error.
What counts, precisely: *every* way to spell a correct text in vocabulary pieces (the canonical tokenization and all
others), each followed by any EOS id; an answer's mass is the sum over its spellings. Not counted, though a verifier that
reads text would accept it: a spelling with special tokens or byte-fallback tokens in it, which decoding drops or joins.
The difference of sampled success and mu bounds that mass. Probabilities are those of softmax(logits / temperature),
untruncated, and of sampling that allows the longest answer and its EOS.
Computation: the prompt once, followed by all spellings of its answers as one packed trie, where each piece attends to
the prompt and to its own path alone. Source: F-GRPO (arXiv 2602.06717) eqs. 2, 9 and 26.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fgrpo_theory import expected_unsampled_correct_mass
from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_table

from .models import dropout_off, encode_prompt, unwrap
from .tasks.base import Problem

_ROWS = 128
Spelling = tuple[int, ...]


@dataclass(frozen=True)
class AnswerLaw:
    """The correct answers of one prompt and their probabilities under one model."""

    problem: str
    """The problem's id."""
    answers: tuple[str, ...]
    """Every correct text."""
    mass: NDArray[np.float64]
    """Probability of each, in the order of `answers`."""

    @property
    def mu(self) -> float:
        """mu_pos, the probability that one rollout is correct (eq. 2)."""
        return float(self.mass.sum())

    def unsampled_mass(self, sampled: Collection[str]) -> float:
        """Q_u,pos of a group (eq. 9): the mass of the correct answers that are not among its texts."""
        seen = set(sampled)
        return float(sum(mass for answer, mass in zip(self.answers, self.mass, strict=True) if answer not in seen))

    def expected_unsampled_mass(self, group_size: int) -> float:
        """E[Q_u,pos] over groups of `group_size` rollouts, in closed form (BroRL Lemma 2)."""
        actions = np.append(self.mass, 1.0 - self.mu)
        return float(expected_unsampled_correct_mass(actions, np.arange(actions.size) < self.mass.size, group_size))


def retained_mass(before: Sequence[AnswerLaw], after: Sequence[AnswerLaw]) -> NDArray[np.float64]:
    """M_ret of each prompt (eq. 26): 1 - sum max(0, p_before - p_after) / sum p_before over its correct answers.

    Raises ValueError unless both list the same problems and answers, and every prompt has some correct mass before.

    >>> law = lambda *mass: [AnswerLaw("12", ("5 + 7", "6 + 6"), np.array(mass))]
    >>> retained_mass(law(0.1, 0.3), law(0.8, 0.1)).round(12).tolist()
    [0.5]
    """
    same = [(law.problem, law.answers) for law in before] == [(law.problem, law.answers) for law in after]
    require(same, "after must list the problems and answers of before", problems=(len(before), len(after)))
    start = np.array([law.mu for law in before])
    require(start > 0, "mu must be above 0 before", mu=start)
    lost = np.array([np.maximum(0.0, old.mass - new.mass).sum() for old, new in zip(before, after, strict=True)])
    return np.asarray(1.0 - lost / start)


@dataclass(frozen=True)
class Speller:
    """All ways to write texts of a given alphabet in a tokenizer's pieces."""

    tokenizer: Any
    pieces: Mapping[str, list[int]] = field(default_factory=dict)
    """Vocabulary entries made of the alphabet alone, with their ids."""

    @classmethod
    def of(cls, tokenizer: Any, alphabet: str) -> Speller:
        """Read the vocabulary once. Byte-level and sentencepiece marks of a space are understood."""
        allowed, special = set(alphabet), set(tokenizer.all_special_ids)
        pieces: dict[str, list[int]] = {}
        for token, index in tokenizer.get_vocab().items():
            piece = token.replace("Ġ", " ").replace("▁", " ")
            if piece and index not in special and allowed.issuperset(piece):
                pieces.setdefault(piece, []).append(index)
        return cls(tokenizer, pieces)

    def spellings(self, text: str) -> list[Spelling]:
        """Every sequence of pieces that joins to `text` and that the tokenizer decodes to it.

        Raises ValueError if there is none.
        """
        found = [ids for ids in self._split(text) if self.tokenizer.decode(list(ids), skip_special_tokens=True) == text]
        require(bool(found), "the vocabulary must be able to spell every answer", answer=text)
        return found

    def _split(self, text: str) -> Iterator[Spelling]:
        if not text:
            yield ()
        for end in range(1, len(text) + 1):
            for index in self.pieces.get(text[:end], ()):
                for rest in self._split(text[end:]):
                    yield (index, *rest)


def exact_laws(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    answers: Sequence[Sequence[str]],
    eos_ids: Sequence[int],
    *,
    temperature: float = 1.0,
    canonical: bool = False,
    most_nodes: int = 1024,
) -> list[AnswerLaw]:
    """The law of the correct answers of each problem; answers[i] lists all correct texts of problems[i].

    canonical: count only the tokenizer's own spelling of each answer, at about half the cost on `sums`: a lower bound
    (3e-6 of mu below for SmolLM2, docs/tasks.md). most_nodes: trie nodes in one forward pass, which bounds memory.
    Raises ValueError for a temperature that is not above 0, lists of different length, or an answer that the vocabulary
    cannot spell.
    """
    require(len(problems) == len(answers), "answers must be one list a problem", answers=len(answers))
    speller = Speller.of(tokenizer, "".join(sorted({letter for texts in answers for text in texts for letter in text})))
    laws = []
    for problem, texts in zip(problems, answers, strict=True):
        spelled = [_canonical(tokenizer, text) if canonical else speller.spellings(text) for text in texts]
        prompt = encode_prompt(tokenizer, problem.prompt, device=model.device)
        mass = answer_masses(model, prompt, spelled, eos_ids, temperature=temperature, most_nodes=most_nodes)
        laws.append(AnswerLaw(problem.id, tuple(texts), mass))
    return laws


def _canonical(tokenizer: Any, text: str) -> list[Spelling]:
    return [tuple(tokenizer(text, add_special_tokens=False)["input_ids"])]


@torch.no_grad()
def answer_masses(
    model: Any,
    prompt: Int[Tensor, " token"],
    spellings: Sequence[Sequence[Spelling]],
    eos_ids: Sequence[int],
    *,
    temperature: float = 1.0,
    most_nodes: int = 1024,
) -> NDArray[np.float64]:
    """Probability that the completion is one of spellings[i] followed by an EOS, for each answer i; shape (answers,).

    Raises ValueError as `exact_laws`, and if an answer has an empty spelling.
    """
    require(temperature > 0, "temperature must be above 0", temperature=temperature)
    require(bool(eos_ids), "eos_ids must not be empty", eos_ids=tuple(eos_ids))
    model = dropout_off(unwrap(model))
    paths = [(answer, path) for answer, ways in enumerate(spellings) for path in ways]
    require(all(path for _, path in paths), "every spelling must have a token", spellings="an empty one")
    mass = np.zeros(len(spellings))
    for trie in _tries(paths, most_nodes):
        ends = _path_probabilities(model, prompt, trie, eos_ids, temperature)
        np.add.at(mass, [answer for answer, _ in trie.ends], ends)
    return mass


@dataclass
class _Trie:
    """Pieces of several spellings, shared where they begin alike; a node's parent stands before it, -1 is the prompt."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    """(answer, last node) of each spelling."""
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, answer: int, path: Spelling) -> None:
        node = -1
        for token in path:
            if (node, token) not in self.children:
                self.children[node, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
            node = self.children[node, token]
        self.ends.append((answer, node))


def _tries(paths: Sequence[tuple[int, Spelling]], most_nodes: int) -> Iterator[_Trie]:
    """Tries of at most `most_nodes` nodes (or of one path, if that is longer), in sorted order so that prefixes meet."""
    trie = _Trie()
    for answer, path in sorted(paths, key=lambda pair: pair[1]):
        if trie.tokens and len(trie.tokens) + len(path) > most_nodes:
            yield trie
            trie = _Trie()
        trie.add(answer, path)
    yield trie


def _path_probabilities(
    model: Any, prompt: Int[Tensor, " token"], trie: _Trie, eos_ids: Sequence[int], temperature: float
) -> NDArray[np.float64]:
    """Probability of each path of the trie with its EOS, in the order of `trie.ends`."""
    device, size = prompt.device, len(trie.tokens)
    inside, positions = _packed(trie, len(prompt))
    bias = torch.zeros(inside.shape, dtype=model.dtype, device=device)
    bias.masked_fill_(torch.from_numpy(~inside).to(device), torch.finfo(model.dtype).min)
    tokens = torch.tensor(trie.tokens, device=device)
    # Row 0 of the logits is the prompt's end, row i + 1 is node i.
    logits = model(
        input_ids=torch.cat([prompt, tokens])[None],
        attention_mask=bias[None, None],
        position_ids=torch.from_numpy(positions)[None].to(device),
        use_cache=False,
        logits_to_keep=size + 1,
    ).logits[0]
    parents = torch.tensor(trie.parents, device=device) + 1
    steps = _log_softmax_at(logits, parents, tokens[:, None], temperature)[:, 0].cpu().numpy()
    ends = torch.tensor([node for _, node in trie.ends], device=device)
    eos = torch.tensor(list(eos_ids), device=device).expand(len(ends), -1)
    stops = _log_softmax_at(logits, ends + 1, eos, temperature).logsumexp(-1).cpu().numpy()
    reached = inside[len(prompt) :, len(prompt) :] @ steps
    return np.asarray(np.exp(reached[ends.cpu().numpy()] + stops))


def _packed(trie: _Trie, prompt_length: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """(what each position of prompt + trie sees, position ids): a node sees the prompt and its own path."""
    total = prompt_length + len(trie.tokens)
    sees, positions = np.tri(total, dtype=bool), np.arange(total)
    for node, parent in enumerate(trie.parents, start=prompt_length):
        before = prompt_length + parent if parent >= 0 else prompt_length - 1
        sees[node], positions[node] = sees[before], positions[before] + 1
        sees[node, node] = True
    return sees, positions


def _log_softmax_at(
    logits: Float[Tensor, "row vocabulary"], rows: Int[Tensor, " item"], ids: Int[Tensor, "item id"], temperature: float
) -> Float[Tensor, "item id"]:
    """log softmax(logits / temperature)[rows, ids] in float64, some rows at a time."""
    parts = zip(torch.split(rows, _ROWS), torch.split(ids, _ROWS), strict=True)
    scaled = [(logits[row].double() / temperature, column) for row, column in parts]
    return torch.cat([part.gather(1, column) - part.logsumexp(-1, keepdim=True) for part, column in scaled])


def law_columns(laws: Sequence[AnswerLaw]) -> dict[str, list[Any]]:
    """The laws as a table: one row an answer, with columns problem, answer, mass."""
    rows = [
        (law.problem, answer, float(mass)) for law in laws for answer, mass in zip(law.answers, law.mass, strict=True)
    ]
    return {name: [row[i] for row in rows] for i, name in enumerate(("problem", "answer", "mass"))}


def read_laws(path: Path | str) -> list[AnswerLaw]:
    """Laws from a table that `law_columns` made; problems in the order of their first row."""
    table = read_table(path)
    order = dict.fromkeys(table["problem"].tolist())
    return [
        AnswerLaw(str(problem), tuple(table["answer"][chosen].tolist()), table["mass"][chosen].astype(np.float64))
        for problem in order
        for chosen in [table["problem"] == problem]
    ]
