"""Pretrained weights of backbones that a library builds: from its hub, from a file, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor, nn

from x2localizer.config import Settings
from x2localizer.errors import CheckpointError
from x2localizer.learn.tensor_files import read_tensors
from x2localizer.learn.towers import TowerPlan

HEADS = ("fc.", "head.", "classifier.", "pre_logits.")
"""Layers that classify; our codes have heads of their own."""


class WeightOptions(Settings):
    """Where the backbones of both towers get their first weights."""

    ground_weights: str = ""
    """'hub' for the pretrained weights of the library that builds the backbone, the path of a file, or '' for random
    weights."""
    aerial_weights: str = ""
    """The same for the aerial tower."""


def load_backbone(
    plan: TowerPlan,
    options: WeightOptions,
    backbone: nn.Module,
    hub: Callable[[], Mapping[str, Tensor]],
    *,
    own: tuple[str, ...] = HEADS,
    fit: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda tensors: tensors,
) -> None:
    """Put the weights that the options name into a backbone; nothing if they name none.

    hub: the pretrained weights of the library.
    own: beginnings of the names of weights that are not loaded, such as those of heads.
    fit: brings weights to the names and the shapes of the backbone.
    """
    source = options.aerial_weights if plan.grid else options.ground_weights
    if not (plan.pretrained and source):
        return
    own = (*own, *(name for name in backbone.state_dict() if name.endswith("num_batches_tracked")))  # often left out
    wanted = {name: tensor for name, tensor in backbone.state_dict().items() if not name.startswith(own)}
    found = fit(_from_hub(hub) if source == "hub" else dict(read_tensors(Path(source))))
    missing = sorted(wanted.keys() - found.keys())
    wrong = sorted(name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape)
    unknown = sorted(name for name in found.keys() - wanted.keys() if not name.startswith(own))
    if missing or wrong or unknown:
        raise CheckpointError(
            f"The weights '{source}' do not fit the backbone: missing {missing[:3]}, unknown {unknown[:3]}, "
            f"of another shape {wrong[:3]}.",
            "Use weights of the same network, or none: the option is ground_weights or aerial_weights.",
        )
    backbone.load_state_dict({name: found[name] for name in wanted}, strict=False)


def _from_hub(hub: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    try:
        return dict(hub())
    except CheckpointError:
        raise
    except Exception as problem:  # each hub has errors of its own
        raise CheckpointError(
            f"The pretrained weights cannot be downloaded ({type(problem).__name__}).",
            "Check the network, or set model.options.ground_weights and aerial_weights to files, or to '' for none.",
        ) from problem
