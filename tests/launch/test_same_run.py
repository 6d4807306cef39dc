"""Ranks that meet at a store: only those of one run, with its token, go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch.distributed as dist

from gnnqlab.launch.same_run import enter_store
from gnnqlab.run import folder as files
from tests.launch.test_cluster import free_port
from tests.launch.test_meeting import together
from tests.ranks import run_ranks


def outcomes(store: dist.Store, *folders: Path, workers: int) -> list[object]:
    def enter(folder: Path, rank: int) -> object:
        try:
            return enter_store(store, folder, rank, workers)
        except RuntimeError as error:
            return error

    return together(*(lambda folder=folder, rank=rank: enter(folder, rank) for rank, folder in enumerate(folders)))


def test_token_is_random_and_readable_by_its_user_only(tmp_path: Path) -> None:
    first, second = (files.create(tmp_path, name) for name in ("one", "two"))
    assert len(files.read_token(first)) == 32 and files.read_token(first) != files.read_token(second)
    assert (first / "token").stat().st_mode & 0o777 == 0o600
    again = files.read_token(first)
    files.create(tmp_path, "one", exist_ok=True)
    assert files.read_token(first) == again, "another machine joins the run"


def test_ranks_of_one_run_share_keys_that_others_do_not_find(tmp_path: Path) -> None:
    folder, store = files.create(tmp_path, "one"), dist.HashStore()
    stores = outcomes(store, folder, folder, folder, workers=3)
    first, second, _ = stores
    assert isinstance(first, dist.Store) and isinstance(second, dist.Store)
    first.set("address", "10.0.0.1")
    assert second.get("address") == b"10.0.0.1" and not store.check(["address"])
    other = files.create(tmp_path / "other", "one")
    [of_other] = outcomes(dist.PrefixStore("x", store), other, workers=1)
    assert isinstance(of_other, dist.Store) and not of_other.check(["address"])


def test_rank_of_another_run_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    folder, other, store = files.create(tmp_path, "one"), files.create(tmp_path, "two"), dist.HashStore()
    assert all(isinstance(each, dist.Store) for each in outcomes(store, folder, folder, workers=2))
    before = store.num_keys()
    try:
        enter_store(store, other, 1, 2)
    except RuntimeError as error:
        text = str(error)
    assert "got the store of run one for rank 1 of run two; give each run another port" in text
    assert not {files.read_token(folder), files.read_token(other)} & set(text.split())
    assert store.num_keys() == before


def test_ranks_with_another_token_raise_on_all(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "one")
    copy = tmp_path / "elsewhere" / "one"
    shutil.copytree(folder, copy)
    (copy / "token").write_text("another")
    found = outcomes(dist.HashStore(), folder, copy, folder, workers=3)
    texts = [str(error) for error in found]
    assert all("where rank(s) 1 do not find the token of rank 0; use one folder" in text for text in texts)


def _joined(rank: int, workers: int, folder: Path, port: int) -> int:
    """Return the sum over the ranks of a process group in the run's part of a store over TCP."""
    import torch

    store = dist.TCPStore("127.0.0.1", port, workers, rank == 0)
    own = enter_store(store, folder, rank, workers)
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=own, rank=rank, world_size=workers)
    total = torch.tensor([rank])
    dist.all_reduce(total)
    dist.barrier()
    # For the end of the test's own process group.
    return int(total)


def test_process_group_forms_in_the_runs_part_of_the_store(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "one")
    assert run_ranks(_joined, 3, folder, free_port()) == [3, 3, 3]
