"""AdamW, or Muon for the matrices of the blocks and AdamW for the rest: what a stage trains with.

Muon (Jordan, 2024) steps along the momentum made orthogonal: every direction of a matrix moves by the same amount. In
small towers that learn from nothing it saves steps. torch has one too, but works in bfloat16, which many CPUs lack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from x2localizer.config import StageSettings
from x2localizer.errors import ConfigError
from x2localizer.learn.model import Model

MOMENTUM = 0.95


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix with nearly the same singular vectors and all singular values near 1, by five Newton-Schulz steps."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.t() if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.t()
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.t() if tall else x


class MuonAdamW(torch.optim.Optimizer):
    """Muon for some parameters, AdamW for others, at one learning rate: a Muon step has the spread of an AdamW step."""

    def __init__(self, matrices: Iterable[nn.Parameter], others: Iterable[nn.Parameter], settings: StageSettings):
        groups: list[dict[str, Any]] = [
            {"params": list(matrices), "muon": True},
            {"params": list(others), "muon": False},
        ]
        defaults = {"lr": settings.lr, "weight_decay": settings.weight_decay}
        super().__init__([group for group in groups if group["params"]], defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step along the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                move = self._muon(parameter) if group["muon"] else self._adam(parameter)
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(move, alpha=-group["lr"])

    def _muon(self, parameter: nn.Parameter) -> Tensor:
        state, grad = self.state[parameter], parameter.grad
        assert grad is not None
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].mul_(MOMENTUM).add_(grad)
        scale = 0.2 * float(max(parameter.shape)) ** 0.5
        move: Tensor = orthogonal(grad + MOMENTUM * state["momentum"]) * scale
        return move

    def _adam(self, parameter: nn.Parameter) -> Tensor:
        state, grad = self.state[parameter], parameter.grad
        assert grad is not None
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        state["mean"].lerp_(grad, 0.1)
        state["square"].lerp_(grad * grad, 0.001)
        t = float(state["step"])
        spread = (state["square"] / (1 - 0.999**t)).sqrt_().add_(1e-8)
        move: Tensor = state["mean"] / (1 - 0.9**t) / spread
        return move


def build_optimizer(model: Model, settings: StageSettings) -> torch.optim.Optimizer:
    """The optimizer of a stage over what is trainable; which matrices Muon gets is the family's knowledge."""
    wanted = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW([p for _, p in wanted], settings.lr, weight_decay=settings.weight_decay)
    hidden = {name for name, p in wanted if p.ndim == 2 and model.family.is_hidden_matrix(name.partition(".")[2])}
    if not hidden:
        raise ConfigError(
            f"The family '{model.settings.family}' has no matrices that Muon could train in this stage.",
            "Set the stage's optimizer to adamw.",
        )
    return MuonAdamW(
        (p for name, p in wanted if name in hidden), (p for name, p in wanted if name not in hidden), settings
    )
