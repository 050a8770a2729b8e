"""Two processes equal one process with the joint batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes

from x2localizer.learn.gather import allowed_columns, average_gradients, gather_rows, targets
from x2localizer.learn.objective import row_cross_entropy

B, D = 3, 5


def _nets() -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(0)
    return nn.Linear(4, D), nn.Linear(4, D)


def _inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    videos, regions = torch.randn(2 * B, 4, generator=generator), torch.randn(2 * B, 4, generator=generator)
    places = torch.tensor([[0, 0], [20, 0], [40, 0], [3, 3], [60, 0], [45, 5]])  # 0 and 3, and 2 and 5, overlap
    return videos, regions, places


def _loss(part: slice) -> tuple[Tensor, list[Tensor]]:
    ground, aerial = _nets()
    videos, regions, places = _inputs()
    own = nn.functional.normalize(ground(videos[part]), dim=-1)
    columns = gather_rows(nn.functional.normalize(aerial(regions[part]), dim=-1))
    s = own @ columns.t()
    loss = row_cross_entropy(s, 0.07, target=targets(s), allowed=allowed_columns(places[part], 7))
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), [p.grad for net in (ground, aerial) for p in net.parameters() if p.grad is not None]


def _work(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    loss, gradients = _loss(slice(rank * B, (rank + 1) * B))
    dist.all_reduce(loss)
    average_gradients(gradients)
    torch.save([loss / 2, *gradients], Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_equal_one_with_the_joint_batch(tmp_path: Path) -> None:
    start_processes(_work, (str(tmp_path),), nprocs=2, start_method="spawn")  # type: ignore[no-untyped-call]
    loss, gradients = _loss(slice(0, 2 * B))
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found[0], loss)
        for a, b in zip(found[1:], gradients, strict=True):
            torch.testing.assert_close(a, b)


def test_overlap_is_seen_across_processes() -> None:
    allowed = allowed_columns(_inputs()[2], 7)
    assert not allowed[0, 3]
    assert not allowed[5, 2]
    assert allowed[0, 0]
    assert allowed[0, 1]
    assert int((~allowed).sum()) == 4
