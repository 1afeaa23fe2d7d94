"""Trains a draft on what the target thinks of its own answers; goes on where it was."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orchestrator.errors import ModelBuildError
from orchestrator.models.corpus import held_out
from orchestrator.models.drafts import Draft
from orchestrator.models.layers import causal_mask
from orchestrator.models.loss import soft_cross_entropy
from orchestrator.models.teacher import Batch, Lessons

#: Steps after which a checkpoint is written: minutes.
SAVE_STEPS = 200
#: A later draft token counts only where those before it were right.
STREAM_WEIGHT = 0.8


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how fast to train.

    `streams` is the number of draft tokens trained, `batch_tokens` the padded tokens
    of a step, `share` of them (at random) are judged: most of a step's time goes into
    the output matrix, and other texts teach more than neighbouring tokens. Texts of
    more than `longest` tokens are left out: attention over the longest fifth of the
    texts took half of the time. `rate` is the peak of the learning rate (linear
    warm-up, cosine to a tenth).
    """

    epochs: int
    streams: int
    rate: float
    batch_tokens: int = 2048
    share: float = 0.5
    longest: int = 512
    warmup_steps: int = 50
    seed: int = 1


@dataclass(slots=True)
class _Epoch:
    """What is done of an epoch: steps, the sum of their losses, and their time."""

    steps: int = 0
    loss: float = 0.0
    seconds: float = 0.0


class Lesson:
    """One batch as a draft sees it: what it reads, and where its tokens are judged.

    `judged` [streams, texts, longest] marks where the target stood when it said a token
    that the stream has drafted.
    """

    def __init__(self, batch: Batch, draft: Draft, streams: int) -> None:
        self.batch = batch
        longest = batch.tokens.shape[1]
        self.mask = causal_mask(longest)
        base = torch.arange(longest)[None]
        starts = torch.tensor(batch.starts)[:, None]
        ends = torch.tensor(batch.lengths)[:, None]
        # Stream j is the j-th token of a draft; the target says an answer's first.
        self.judged = torch.stack(
            [(base >= starts + stream) & (base + 1 < ends) for stream in range(streams)]
        )
        self._first = draft.first

    def thin(self, share: float) -> None:
        """Judge only a random share of the places."""
        self.judged &= torch.rand(self.judged.shape[1:]) < share

    def aligned(self, states: Sequence[Tensor]) -> Tensor:
        """Each stream's states where the target stood when it said the same token.

        [streams, rows, size], for the rows of `truth`.
        """
        return torch.stack(
            [
                torch.roll(part, self._first - 1 + stream, 1)[self.judged[0]]
                for stream, part in enumerate(states)
            ]
        )

    def truth(self) -> Tensor:
        """The target's last hidden states before each token of an answer."""
        return self.batch.last[self.judged[0]]

    def next_tokens(self) -> Tensor:
        """These tokens, [rows]."""
        return torch.roll(self.batch.tokens, -1, 1)[self.judged[0]]


class Trainer:
    """Trains `draft` on `lessons`, with the target's embedding over a vocabulary.

    Args:
        draft: what is trained.
        embed: the target's embedding, which is its output matrix too,
            [vocabulary, hidden_size], bfloat16.
        vocabulary: the target's token ids that the draft can say, ascending.
        lessons: what the target thinks.
        plan: how.
        state: file of the last checkpoint, written every `SAVE_STEPS` and epoch.
    """

    def __init__(
        self,
        draft: Draft,
        embed: Tensor,
        vocabulary: Tensor,
        lessons: Lessons,
        plan: Plan,
        state: Path,
    ) -> None:
        self.draft, self.plan, self._lessons, self._state = draft, plan, lessons, state
        self._embed, self._head = embed, embed[vocabulary]
        self._vocabulary = vocabulary
        self._known = torch.zeros(embed.shape[0], dtype=torch.bool)
        self._known[vocabulary] = True
        self.held_out = [t for t in range(lessons.count) if held_out(t)]
        self._train = [
            text
            for text, length in enumerate(lessons.texts["lengths"])
            if length <= plan.longest and not held_out(text)
        ]
        self._steps = sum(1 for _ in lessons.batches(self._train, plan.batch_tokens))
        self._optimizer = torch.optim.AdamW(
            draft.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self.log: list[dict[str, Any]] = []
        self._begun = _Epoch()
        # More epochs may follow; with anything else, the weights would be of neither.
        self._of = {**asdict(plan), "epochs": None, "vocabulary": vocabulary.tolist()}
        self._of["answers"] = lessons.texts["answers"]
        if state.exists():
            kept = torch.load(state)
            if kept["of"] != self._of:
                raise ModelBuildError(
                    f"{state} is of other answers or another version. Delete it to"
                    " train anew, or give another --folder."
                )
            draft.load_state_dict(kept["draft"])
            self._optimizer.load_state_dict(kept["optimizer"])
            self.log, self._begun = kept["log"], _Epoch(**kept["begun"])
            if len(self.log) > plan.epochs:
                raise ModelBuildError(
                    f"{state} has {len(self.log)} epochs already, more than"
                    f" {plan.epochs}. Give --epochs of at least that, or delete it to"
                    " train anew."
                )

    def run(self, progress: Callable[[int, int, float], None]) -> None:
        """Train to the plan's end; `progress` gets steps done, their number, loss."""
        for epoch in range(len(self.log), self.plan.epochs):
            batches = list(self._lessons.batches(self._train, self.plan.batch_tokens))
            random.Random(self.plan.seed + epoch).shuffle(batches)
            begun = self._begun
            for number in range(begun.steps, len(batches)):
                started = time.perf_counter()
                step = epoch * self._steps + number
                begun.loss += self._step(batches[number], step)
                begun.steps += 1
                begun.seconds += time.perf_counter() - started
                steps = self.plan.epochs * self._steps
                progress(step + 1, steps, begun.loss / begun.steps)
                if begun.steps % SAVE_STEPS == 0:
                    self._save()
            self.log.append(
                {
                    "epoch": epoch + 1,
                    "loss": round(begun.loss / len(batches), 4),
                    "held_out": self.evaluate()["all"],
                    "seconds": round(begun.seconds),
                }
            )
            self._begun = _Epoch()
            self._save()

    def _step(self, texts: Sequence[int], step: int) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(step)
        lesson = Lesson(self._lessons.load(texts), self.draft, self.plan.streams)
        torch.manual_seed(self.plan.seed + step)  # the same when it goes on later
        lesson.thin(self.plan.share)
        self._optimizer.zero_grad()
        loss, _ = self._loss(lesson)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        self._optimizer.step()
        return float(loss.detach())

    def _rate(self, step: int) -> float:
        plan = self.plan
        if step < plan.warmup_steps:
            return plan.rate * (step + 1) / plan.warmup_steps
        part = step / max(1, plan.epochs * self._steps)
        return plan.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * part)))

    def _loss(self, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """The loss, and the tokens picked, [streams, rows]."""
        batch, streams = lesson.batch, self.plan.streams
        tokens = self.draft.readable(batch.tokens, self._known)
        with torch.autocast("cpu", torch.bfloat16):
            states = self.draft(
                self._embed, tokens, batch.features, streams, lesson.mask
            )
        hidden = lesson.aligned(states).to(torch.bfloat16)
        judged = lesson.judged[:, lesson.judged[0]]
        weights = judged * STREAM_WEIGHT ** torch.arange(streams)[:, None]
        loss, picks = soft_cross_entropy(hidden, lesson.truth(), self._head, weights)
        return loss, self._vocabulary[picks]

    @torch.no_grad()
    def evaluate(self) -> dict[str, list[float]]:
        """Held-out greedy answers: how often the first 1, 2, ... tokens are all right.

        The share of draft positions whose first `j` tokens are what the target said,
        by kind of prompt and for all: the survival of a draft's tokens.
        """
        right: dict[str, list[list[float]]] = defaultdict(list)
        for texts in self._lessons.batches(self.held_out, self.plan.batch_tokens):
            lesson = Lesson(self._lessons.load(texts), self.draft, self.plan.streams)
            _, picks = self._loss(lesson)
            hits = torch.zeros(lesson.judged.shape)
            hits[:, lesson.judged[0]] = (picks == lesson.next_tokens()).float()
            # Back to where the draft starts, so that its tokens stand in one column.
            for stream in range(1, self.plan.streams):
                hits[stream] = torch.roll(hits[stream], -stream, 1)
            chain = hits.cumprod(0)
            whole = torch.roll(lesson.judged[-1], 1 - self.plan.streams, 1)
            for row, kind in enumerate(lesson.batch.kinds):
                if not lesson.batch.greedy[row]:
                    continue
                for hit in chain[:, row][:, whole[row]].T.tolist():
                    right[kind].append(hit)
                    right["all"].append(hit)
        return {
            kind: [
                round(sum(column) / len(rows), 4) for column in zip(*rows, strict=True)
            ]
            for kind, rows in sorted(right.items())
        }

    def _save(self) -> None:
        new = self._state.with_suffix(".new")
        torch.save(
            {
                "draft": self.draft.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "of": self._of,
                "log": self.log,
                "begun": asdict(self._begun),
            },
            new,
        )
        new.replace(self._state)
