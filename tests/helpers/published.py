"""What the public checkpoints hold, and their forward pass written down plainly.

Key names and shapes are those of the two public layouts; the numbers are random. The forward pass works on the
published names, so it shares no code and no name with ours.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

TOWERS = {"GAReT": ("query_net.", "reference_net."), "authors": ("encoder_a.model.", "encoder_b.model.")}


def published_shapes(
    layout: str,
    *,
    depth: int = 12,
    width: int = 384,
    dim: int = 1000,
    patches: tuple[int, int] = (13 * 24, 16 * 16),
    instances: tuple[int, int] = (8, 49),
) -> dict[str, tuple[int, ...]]:
    """Every key of a public layout with its shape; ``patches`` and ``instances`` are of the ground, aerial tower."""
    shapes: dict[str, tuple[int, ...]] = {}
    for tower, p, s in zip(TOWERS[layout], patches, instances, strict=True):
        shapes |= {
            f"{tower}cls_token": (1, 1, width), f"{tower}dist_token": (1, 1, width),
            f"{tower}pos_embed": (1, p + 2, width), f"{tower}temporal_embedding": (1, s, width),
            f"{tower}patch_embed.proj.weight": (width, 3, 16, 16), f"{tower}patch_embed.proj.bias": (width,),
            f"{tower}norm.weight": (width,), f"{tower}norm.bias": (width,),
        }  # fmt: skip
        for head in ("head", "head_dist"):
            shapes |= {f"{tower}{head}.weight": (dim, width), f"{tower}{head}.bias": (dim,)}
        for block in range(depth):
            shapes |= {f"{tower}blocks.{block}.{name}": shape for name, shape in _block_shapes(width).items()}
    return shapes


def _block_shapes(width: int) -> dict[str, tuple[int, ...]]:
    hidden = width // 4
    return {
        "norm1.weight": (width,), "norm1.bias": (width,), "norm2.weight": (width,), "norm2.bias": (width,),
        "attn.qkv.weight": (3 * width, width), "attn.qkv.bias": (3 * width,),
        "attn.proj.weight": (width, width), "attn.proj.bias": (width,),
        "mlp.fc1.weight": (4 * width, width), "mlp.fc1.bias": (4 * width,),
        "mlp.fc2.weight": (width, 4 * width), "mlp.fc2.bias": (width,),
        "T_Adapter.D_fc1.weight": (hidden, width), "T_Adapter.D_fc1.bias": (hidden,),
        "T_Adapter.D_fc2.weight": (width, hidden), "T_Adapter.D_fc2.bias": (width,),
        "T_Adapter.D_inv_fcb1": (width,), "T_Adapter.D_inv_fcb2": (hidden,),
    }  # fmt: skip


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    """Numbers for the shapes, large enough that every tensor matters to the codes."""
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in shapes.items():
        spread = 1 / math.sqrt(math.prod(shape[1:])) if len(shape) in (2, 4) else 0.3
        out[name] = torch.randn(shape, generator=generator) * spread
        if name.endswith(("norm.weight", "norm1.weight", "norm2.weight")):
            out[name] += 1
    return out


def published_codes(tensors: dict[str, Tensor], layout: str, images: Tensor, *, aerial: bool) -> tuple[Tensor, Tensor]:
    """Codes of one set (s, 3, H, W) by the published forward pass: the whole (d,) and its instances (s, d)."""
    tower = TOWERS[layout][int(aerial)]
    net = {name.removeprefix(tower): tensor for name, tensor in tensors.items() if name.startswith(tower)}
    s = len(images)
    x = F.conv2d(images, net["patch_embed.proj.weight"], net["patch_embed.proj.bias"], stride=16)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([net["cls_token"].expand(s, -1, -1), net["dist_token"].expand(s, -1, -1), x], 1) + net["pos_embed"]
    for block in range(sum(name.endswith("norm1.bias") for name in net)):
        own = {name.split(".", 2)[2]: value for name, value in net.items() if name.startswith(f"blocks.{block}.")}
        x = _published_block(own, x, net["temporal_embedding"][:, :s], aerial=aerial, skip=layout == "GAReT")
    x = F.layer_norm(x, x.shape[-1:], net["norm.weight"], net["norm.bias"], 1e-6)
    code = (F.linear(x[:, 0], net["head.weight"], net["head.bias"])
            + F.linear(x[:, 1], net["head_dist.weight"], net["head_dist.bias"])) / 2  # fmt: skip
    return F.normalize(code.mean(0), dim=-1), F.normalize(code, dim=-1)


def _published_block(net: dict[str, Tensor], x: Tensor, places: Tensor, *, aerial: bool, skip: bool) -> Tensor:
    """One block: (s, p, c) -> (s, p, c)."""
    s, p, _ = x.shape
    x = x + _attention(net, _norm(net, "norm1", x))
    across = x.transpose(0, 1) + places  # (p, s, c)
    inner = F.gelu(F.linear(across, net["T_Adapter.D_fc1.weight"], net["T_Adapter.D_fc1.bias"]))
    inner = F.linear(inner, net["T_Adapter.D_fc2.weight"], net["T_Adapter.D_fc2.bias"])
    inner = across + inner if skip else inner
    mask = torch.ones(p, 1, s, s, dtype=torch.bool)
    if aerial:
        mask[2:] = torch.eye(s, dtype=torch.bool)  # patches look at themselves, cls and dist at all tiles
    mixed = _attention(net, _norm(net, "norm1", inner), mask)
    back = F.gelu(F.linear(mixed, net["T_Adapter.D_fc2.weight"].t(), net["T_Adapter.D_inv_fcb2"]))
    back = F.linear(back, net["T_Adapter.D_fc1.weight"].t(), net["T_Adapter.D_inv_fcb1"])
    x = x + back.transpose(0, 1)
    hidden = F.gelu(F.linear(_norm(net, "norm2", x), net["mlp.fc1.weight"], net["mlp.fc1.bias"]))
    return x + F.linear(hidden, net["mlp.fc2.weight"], net["mlp.fc2.bias"])


def _norm(net: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], net[f"{name}.weight"], net[f"{name}.bias"], 1e-6)


def _attention(net: dict[str, Tensor], x: Tensor, mask: Tensor | None = None, heads: int = 6) -> Tensor:
    b, n, c = x.shape
    qkv = F.linear(x, net["attn.qkv.weight"], net["attn.qkv.bias"])
    q, k, v = qkv.reshape(b, n, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    weights = q @ k.transpose(-1, -2) / math.sqrt(c // heads)
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf"))
    out = (weights.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
    return F.linear(out, net["attn.proj.weight"], net["attn.proj.bias"])
