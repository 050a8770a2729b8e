"""Muon and AdamW in one optimizer: against torch's AdamW, against a singular value decomposition, and on a stage."""

from __future__ import annotations

import torch
from torch import nn

from x2localizer.config import BackboneSettings, ModelSettings, StageSettings
from x2localizer.learn.model import Model
from x2localizer.learn.optimizer import MuonAdamW, build_optimizer, orthogonal


def test_orthogonal_keeps_the_singular_vectors_and_evens_the_values() -> None:
    torch.manual_seed(0)
    for shape in ((12, 30), (30, 12), (16, 40)):
        matrix = torch.randn(shape)
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        found = torch.linalg.svdvals(orthogonal(matrix))
        assert values.max() / values.min() > 2
        assert 0.6 < float(found.min()) <= float(found.max()) < 1.3
        turned = left.t() @ orthogonal(matrix) @ right.t()
        assert float((turned - torch.diag(turned.diagonal())).abs().max()) < 1e-4


def test_what_is_no_matrix_of_a_block_moves_as_with_adamw() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    settings = StageSettings(lr=0.01, weight_decay=0.1, optimizer="muon")
    mine = MuonAdamW([{"params": list(ours.parameters()), "muon": False}], settings)
    reference = torch.optim.AdamW(theirs.parameters(), 0.01, weight_decay=0.1)
    for _ in range(5):
        x = torch.randn(7, 5)
        for layer, optimizer in ((ours, mine), (theirs, reference)):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-6, rtol=0)


def test_only_matrices_of_blocks_and_adapters_go_to_muon() -> None:
    model = Model(ModelSettings(backbone=BackboneSettings(width=12, depth=1, heads=2), dim=8))
    optimizer = build_optimizer(model, StageSettings(optimizer="muon"))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    by_kind: dict[bool, list[str]] = {True: [], False: []}
    for group in optimizer.param_groups:
        by_kind[group["muon"]] += [names[id(p)] for p in group["params"]]
    matrices = ("attn.qkv.weight", "attn.proj.weight", "mlp.fc1.weight", "mlp.fc2.weight")
    adapter = [f"adapters.0.{layer}.weight" for layer in ("D_fc1", "D_fc2")]
    inner = [*(f"backbone.blocks.0.{name}" for name in matrices), *adapter]
    assert by_kind[True] == [f"{tower}.{name}" for tower in ("aerial", "ground") for name in inner]
    assert len(by_kind[True]) + len(by_kind[False]) == len(names)
    assert isinstance(build_optimizer(model, StageSettings()), torch.optim.AdamW)


def test_a_muon_step_is_as_large_as_an_adamw_step() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(128, 512))
    settings = StageSettings(lr=0.01, weight_decay=0.0, optimizer="muon")
    optimizer = MuonAdamW([{"params": [weight], "muon": True}], settings)
    weight.grad = torch.randn(128, 512)
    optimizer.step()
    assert 0.001 < float(weight.detach().square().mean().sqrt()) < 0.004


def test_muon_takes_a_convolution_as_a_matrix() -> None:
    weight = nn.Parameter(torch.zeros(16, 8, 3, 3))
    optimizer = MuonAdamW(
        [{"params": [weight], "muon": True}], StageSettings(lr=1.0, weight_decay=0.0, optimizer="muon")
    )
    weight.grad = torch.randn(16, 8, 3, 3, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    lengths = torch.linalg.svdvals(weight.detach().flatten(1)) / (0.2 * 72**0.5)
    assert 0.5 < float(lengths.min()) <= float(lengths.max()) < 1.5
