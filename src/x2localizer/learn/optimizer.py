"""The optimizer of a stage: AdamW, or Muon for hidden matrices and AdamW for the rest.

Muon (Jordan, 2024) makes the momentum of a matrix orthogonal before it steps, so that every direction moves by the same
amount. Small towers that start from random weights need fewer steps with it. torch has a Muon, too, but it computes in
bfloat16, which many CPUs lack.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from x2localizer.config import StageSettings
from x2localizer.errors import ConfigError
from x2localizer.learn.model import Model

MOMENTUM = 0.95


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix with nearly the same singular vectors and singular values near 1, by five Newton-Schulz steps."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.t() if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.t()
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.t() if tall else x


class MuonAdamW(torch.optim.Optimizer):
    """Muon for some parameters, AdamW for others. Their steps have similar sizes, so one learning rate serves both.

    groups: ``params``, whether ``muon`` trains them, and their ``share`` of the learning rate.
    """

    def __init__(self, groups: list[dict[str, Any]], settings: StageSettings):
        defaults = {"lr": settings.lr, "weight_decay": settings.weight_decay}
        super().__init__([group for group in groups if group["params"]], defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step."""
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
        scale = 0.2 * float(max(parameter.shape[0], parameter[0].numel())) ** 0.5
        matrix = (grad + MOMENTUM * state["momentum"]).flatten(1)  # a convolution is a matrix, too
        move: Tensor = orthogonal(matrix) * scale
        return move.view_as(parameter)

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
    """The optimizer of a stage, for the weights that are trainable. The family says which of them Muon trains."""
    wanted = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW([p for _, p in wanted], settings.lr, weight_decay=settings.weight_decay)
    hidden = {
        name for name, p in wanted if p.ndim in (2, 4, 5) and model.family.is_hidden_matrix(name.partition(".")[2])
    }
    if not hidden:
        raise ConfigError(
            f"The family '{model.settings.family}' has no matrices that Muon could train in this stage.",
            "Set the stage's optimizer to adamw.",
        )
    groups = []
    for prefix, share in (("aerial.", 1.0), ("ground.", settings.ground_lr_share)):
        for muon in (True, False):
            chosen = [p for name, p in wanted if name.startswith(prefix) and (name in hidden) == muon]
            groups.append({"params": chosen, "muon": muon, "share": share})
    return MuonAdamW(groups, settings)
