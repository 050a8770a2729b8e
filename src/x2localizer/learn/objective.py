"""The asymmetric cross-grained objective, section 3 of the paper, as small pure functions.

Rows of a similarity matrix are videos, columns are regions. The region of row i is column ``target[i]``, by default i.
``allowed`` is False for columns that must not count as negatives, because their region overlaps that of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from x2localizer.config import ObjectiveSettings


def soft_margin_loss(
    s_img: Tensor, temperature: float, *, target: Tensor | None = None, allowed: Tensor | None = None
) -> Tensor:
    """L_smcl, equation of appendix A.1: log(1 + sum over j != i of exp((s_ij - s_ii) / tau_sm)).

    This equals row-wise cross-entropy with temperature tau_sm.
    """
    return row_cross_entropy(s_img, temperature, target=target, allowed=allowed)


def row_cross_entropy(
    s: Tensor, temperature: float, *, target: Tensor | None = None, allowed: Tensor | None = None
) -> Tensor:
    """L_ce, equation 4: the retrieval loss from ground to aerial, (b, n) -> scalar."""
    if target is None:
        target = torch.arange(len(s), device=s.device)
    logits = _without(s / temperature, allowed)
    return F.cross_entropy(logits, target)


def _without(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Logits with minus infinity in the columns that do not count."""
    return logits if allowed is None else logits.masked_fill(~allowed, float("-inf"))


def token_similarity(tokens: Tensor, tiles: Tensor) -> Tensor:
    """s_tok, equation 5: (b, k, d) and (n, l, d) -> (b, n, k, l)."""
    return torch.einsum("bkd,nld->bnkl", tokens, tiles)


def soft_aggregate(values: Tensor, temperature: float) -> Tensor:
    """Mean over the last axis, weighted by the softmax of the values. At a low temperature it is nearly the maximum."""
    return (torch.softmax(values / temperature, dim=-1) * values).sum(-1)


def fine_similarity(s_tok: Tensor, temperature: float) -> Tensor:
    """s_f, equations 6 to 10: the mean of both orders of aggregation, (b, n, k, l) -> (b, n)."""
    ground = soft_aggregate(soft_aggregate(s_tok, temperature), temperature)
    aerial = soft_aggregate(soft_aggregate(s_tok.transpose(-1, -2), temperature), temperature)
    return (ground + aerial) / 2


def best_tile_similarity(s_tok: Tensor, temperature: float) -> Tensor:
    """s_best, not in the paper: the mean over frames of the (soft) best tile, (b, n, k, l) -> (b, n)."""
    return soft_aggregate(s_tok, temperature).mean(-1)


def keep_loss(tokens: Tensor, image_codes: Tensor) -> Tensor:
    """L_keep, not in the paper: how far tokens have turned from the image codes of stage 1, both of length 1."""
    return (1.0 - (tokens * image_codes.detach()).sum(-1)).mean()


def mixed_similarity(s_g: Tensor, s_f: Tensor) -> Tensor:
    """s_mix, equation 15."""
    return (s_g + s_f) / 2


def rank_distillation(
    s: Tensor, teacher: Tensor, temperature: float, allowed: Tensor | None = None, *, scaled: bool = True
) -> Tensor:
    """D_rank, equation 12: tau_d^2 KL(softmax(teacher / tau_d) || softmax(s / tau_d)), averaged over rows.

    The teacher gets no gradient, in self-distillation either. ``scaled=False`` leaves tau_d^2 out.
    """
    student = torch.log_softmax(_without(s / temperature, allowed), dim=-1)
    target = torch.log_softmax(_without(teacher.detach() / temperature, allowed), dim=-1)
    share = target.exp()
    terms = torch.where(share > 0, share * (target - student), torch.zeros_like(share))
    divergence = terms.sum(-1).mean()
    return temperature**2 * divergence if scaled else divergence


@dataclass(frozen=True, slots=True)
class Losses:
    """The total loss, and its terms by name."""

    total: Tensor
    terms: dict[str, Tensor]


def alignment_loss(
    s_g: Tensor, s_f: Tensor | None, budget: int, settings: ObjectiveSettings, allowed: Tensor | None = None,
    target: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """L_align of one budget, equation 11: lambda_g L_g + lambda_f L_f."""
    weight_g, weight_f = settings.lambda_g[budget], settings.lambda_f[budget]
    total = s_g.new_zeros(())
    terms: dict[str, Tensor] = {}
    if weight_g:
        terms[f"global_{budget}"] = row_cross_entropy(s_g, settings.tau_c, target=target, allowed=allowed)
        total = total + weight_g * terms[f"global_{budget}"]
    if weight_f and s_f is not None:
        terms[f"fine_{budget}"] = row_cross_entropy(s_f, settings.tau_c, target=target, allowed=allowed)
        total = total + weight_f * terms[f"fine_{budget}"]
    return total, terms


def total_loss(
    s_g: Mapping[int, Tensor],
    s_f: Mapping[int, Tensor],
    teacher: Tensor | None,
    settings: ObjectiveSettings,
    allowed: Tensor | None = None,
    target: Tensor | None = None,
) -> Losses:
    """L_total, equation 14: the alignment of all budgets, and two distillations.

    s_g, s_f: a similarity matrix for each budget; the largest budget is the full video.
    teacher: s_g of the frozen model on full videos, or None.
    """
    full = max(s_g)
    total = s_g[full].new_zeros(())
    terms: dict[str, Tensor] = {}
    for budget in sorted(s_g):
        part, named = alignment_loss(s_g[budget], s_f.get(budget), budget, settings, allowed, target)
        total = total + settings.gamma[budget] * part
        terms |= named
    shorter, scaled = [budget for budget in s_g if budget < full], settings.scale_distillation
    if settings.eta_self and shorter:
        pulls = [
            rank_distillation(s_g[budget], s_g[full], settings.tau_d, allowed, scaled=scaled) for budget in shorter
        ]
        terms["self"] = torch.stack(pulls).mean()
        total = total + settings.eta_self * terms["self"]
    if settings.eta_teacher and teacher is not None:
        terms["teacher"] = rank_distillation(s_g[full], teacher, settings.tau_d, allowed, scaled=scaled)
        total = total + settings.eta_teacher * terms["teacher"]
    return Losses(total, terms)
