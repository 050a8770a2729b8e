"""Each term against a naive loop, by gradient check, and at its limits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from x2localizer.config import ObjectiveSettings
from x2localizer.learn.objective import (
    alignment_loss,
    best_tile_similarity,
    fine_similarity,
    keep_loss,
    mixed_similarity,
    rank_distillation,
    row_cross_entropy,
    soft_aggregate,
    soft_margin_loss,
    token_similarity,
    total_loss,
)

B, N, K, L, D = 4, 4, 3, 5, 6


def _matrix(seed: int, b: int = B, n: int = N) -> Tensor:
    return torch.rand((b, n), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def _tokens(seed: int, *shape: int) -> Tensor:
    raw = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(raw, dim=-1)


def test_soft_margin_loss_is_the_printed_sum() -> None:
    s, tau = _matrix(0), 0.05
    naive = sum(
        math.log(1 + sum(math.exp((float(s[i, j]) - float(s[i, i])) / tau) for j in range(N) if j != i))
        for i in range(B)
    )
    assert float(soft_margin_loss(s, tau)) == pytest.approx(naive / B, rel=1e-9)


def test_row_cross_entropy_is_the_printed_sum() -> None:
    s, tau = _matrix(1), 0.07
    naive = 0.0
    for i in range(B):
        total = sum(math.exp(float(s[i, j]) / tau) for j in range(N))
        naive -= math.log(math.exp(float(s[i, i]) / tau) / total) / B
    assert float(row_cross_entropy(s, tau)) == pytest.approx(naive, rel=1e-9)


def test_overlapping_regions_are_no_negatives() -> None:
    s = _matrix(2)
    allowed = torch.ones(B, N, dtype=torch.bool)
    allowed[0, 1] = allowed[1, 0] = False
    base = row_cross_entropy(s, 0.07, allowed=allowed)
    s[0, 1], s[1, 0] = 50.0, -50.0
    assert float(row_cross_entropy(s, 0.07, allowed=allowed)) == pytest.approx(float(base), rel=1e-12)
    teacher = _matrix(3)
    before = rank_distillation(_matrix(2), teacher, 0.07, allowed)
    changed = _matrix(2)
    changed[0, 1] = 9.0
    assert float(rank_distillation(changed, teacher, 0.07, allowed)) == pytest.approx(float(before), rel=1e-12)


def _naive_fine(s: Tensor, tau: float) -> float:
    """Equations 6 to 10 for one pair, (k, l) similarities, in plain loops."""

    def soft(values: list[float]) -> float:
        top = max(values)
        weights = [math.exp((v - top) / tau) for v in values]
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)

    rows = [[float(v) for v in row] for row in s]
    ground = soft([soft(row) for row in rows])
    aerial = soft([soft([row[c] for row in rows]) for c in range(len(rows[0]))])
    return (ground + aerial) / 2


def test_fine_similarity_is_the_printed_aggregation() -> None:
    p, q = _tokens(4, B, K, D), _tokens(5, N, L, D)
    s_tok = token_similarity(p, q)
    assert s_tok.shape == (B, N, K, L)
    assert float(s_tok[1, 2, 0, 3]) == pytest.approx(float(p[1, 0] @ q[2, 3]))
    for tau in (0.01, 0.2):
        s_f = fine_similarity(s_tok, tau)
        for i in range(B):
            for j in range(N):
                assert float(s_f[i, j]) == pytest.approx(_naive_fine(s_tok[i, j], tau), rel=1e-9)


def test_without_temperature_aggregation_is_a_maximum() -> None:
    s_tok = token_similarity(_tokens(6, B, K, D), _tokens(7, N, L, D))
    best = s_tok.amax((-1, -2))
    torch.testing.assert_close(fine_similarity(s_tok, 1e-5), best, atol=1e-4, rtol=0)
    at_paper = fine_similarity(s_tok, 0.01)
    assert bool((at_paper <= best + 1e-12).all())
    assert bool((best - at_paper < 0.031).all())


def test_one_frame_makes_both_directions_equal() -> None:
    s_tok = token_similarity(_tokens(8, B, 1, D), _tokens(9, N, L, D))
    ground = soft_aggregate(soft_aggregate(s_tok, 0.01), 0.01)
    aerial = soft_aggregate(soft_aggregate(s_tok.transpose(-1, -2), 0.01), 0.01)
    torch.testing.assert_close(ground, aerial)


def test_best_tile_similarity_is_the_mean_over_frames() -> None:
    s_tok = token_similarity(_tokens(6, B, K, D), _tokens(7, N, L, D))
    for i in range(B):
        for j in range(N):
            naive = sum(max(float(v) for v in s_tok[i, j, k]) for k in range(K)) / K
            assert float(best_tile_similarity(s_tok, 1e-5)[i, j]) == pytest.approx(naive, abs=1e-4)
    soft = [sum(w * float(v) for w, v in zip(torch.softmax(row / 0.2, 0), row, strict=True)) for row in s_tok[1, 2]]
    assert float(best_tile_similarity(s_tok, 0.2)[1, 2]) == pytest.approx(float(sum(soft)) / K)


def test_tokens_that_stayed_cost_nothing_and_opposite_ones_two() -> None:
    codes = _tokens(30, B, K, D).requires_grad_()
    tokens = codes.detach().clone().requires_grad_()
    assert float(keep_loss(tokens, codes).detach()) == pytest.approx(0.0, abs=1e-12)
    assert float(keep_loss(-tokens, codes).detach()) == pytest.approx(2.0)
    keep_loss(tokens, codes).backward()  # type: ignore[no-untyped-call]
    assert codes.grad is None, "stage 1 is not pulled"
    assert tokens.grad is not None


def test_mixed_similarity_is_the_mean() -> None:
    torch.testing.assert_close(mixed_similarity(_matrix(1), _matrix(2)), (_matrix(1) + _matrix(2)) / 2)


def test_rank_distillation_is_the_printed_divergence() -> None:
    s, teacher, tau = _matrix(10), _matrix(11), 0.07
    naive = 0.0
    for i in range(B):
        p = torch.softmax(teacher[i] / tau, 0)
        q = torch.softmax(s[i] / tau, 0)
        naive += tau**2 * sum(float(p[j]) * math.log(float(p[j]) / float(q[j])) for j in range(N)) / B
    assert float(rank_distillation(s, teacher, tau)) == pytest.approx(naive, rel=1e-9)


def test_a_perfect_student_has_no_distillation_loss() -> None:
    s = _matrix(12).requires_grad_()
    loss = rank_distillation(s, s.detach() + 3.0, 0.07)  # a shift of a row changes no ranking
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-12)
    assert s.grad is not None
    assert float(s.grad.abs().max()) < 1e-9


def test_the_teacher_side_carries_no_gradient() -> None:
    s, teacher = _matrix(13).requires_grad_(), _matrix(14).requires_grad_()
    rank_distillation(s, teacher, 0.07).backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_gradients(tau: float) -> None:
    s, teacher = _matrix(15).requires_grad_(), _matrix(16)
    p, q = _tokens(17, 2, K, D).requires_grad_(), _tokens(18, 2, L, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: row_cross_entropy(x, tau), (s,))
    assert torch.autograd.gradcheck(lambda x: rank_distillation(x, teacher, tau), (s,))
    assert torch.autograd.gradcheck(lambda a, b: fine_similarity(token_similarity(a, b), tau), (p, q))


def test_the_papers_weights_are_the_defaults() -> None:
    o = ObjectiveSettings()
    assert o.gamma == {1: 0.05, 2: 0.10, 4: 0.25, 8: 2.00}
    assert o.lambda_g == dict.fromkeys((1, 2, 4, 8), 1.0)
    assert o.lambda_f == {1: 2.0, 2: 1.0, 4: 0.5, 8: 0.0}
    assert (o.eta_self, o.eta_teacher, o.tau_c, o.tau_d, o.tau_f) == (0.2, 1.0, 0.07, 0.07, 0.01)


def test_the_total_is_the_sum_of_its_parts() -> None:
    o = ObjectiveSettings()
    s_g = {budget: _matrix(20 + budget) for budget in (1, 2, 4, 8)}
    s_f = {budget: _matrix(40 + budget) for budget in (1, 2, 4)}
    teacher = _matrix(60)
    naive = sum(o.gamma[t] * float(row_cross_entropy(s_g[t], o.tau_c)) for t in s_g)
    naive += sum(o.gamma[t] * o.lambda_f[t] * float(row_cross_entropy(s_f[t], o.tau_c)) for t in s_f)
    naive += o.eta_self * sum(float(rank_distillation(s_g[t], s_g[8], o.tau_d)) for t in (1, 2, 4)) / 3
    naive += o.eta_teacher * float(rank_distillation(s_g[8], teacher, o.tau_d))
    losses = total_loss(s_g, s_f, teacher, o)
    assert float(losses.total) == pytest.approx(naive, rel=1e-9)
    assert set(losses.terms) == {
        "global_1", "global_2", "global_4", "global_8", "fine_1", "fine_2", "fine_4", "self", "teacher"
    }  # fmt: skip


def test_distillation_without_its_factor_is_two_hundred_times_as_heavy() -> None:
    printed, plain = ObjectiveSettings(), ObjectiveSettings(scale_distillation=False)
    s_g = {budget: _matrix(20 + budget) for budget in (1, 8)}
    teacher = _matrix(60)
    before, after = (total_loss(s_g, {}, teacher, o) for o in (printed, plain))
    for term in ("self", "teacher"):
        assert float(after.terms[term]) == pytest.approx(float(before.terms[term]) / 0.07**2, rel=1e-9)
    for term in ("global_1", "global_8"):
        assert float(after.terms[term]) == float(before.terms[term])
    more = sum(eta * float(after.terms[term] - before.terms[term]) for term, eta in (("self", 0.2), ("teacher", 1.0)))
    assert float(after.total) == pytest.approx(float(before.total) + more, rel=1e-9)


def test_a_weight_of_zero_leaves_a_term_out() -> None:
    o = ObjectiveSettings(eta_self=0.0, eta_teacher=0.0, lambda_f={1: 0.0, 8: 0.0}, lambda_g={1: 1.0, 8: 1.0})
    losses = total_loss({1: _matrix(1), 8: _matrix(2)}, {1: _matrix(3)}, _matrix(4), o)
    assert set(losses.terms) == {"global_1", "global_8"}
    total, terms = alignment_loss(_matrix(1), None, 8, o)
    assert float(total) == pytest.approx(float(terms["global_8"]))
