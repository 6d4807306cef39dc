"""One thread for products while workers share this process, and as many as before afterwards."""

from __future__ import annotations

import threading

import torch

from gnnqlab.simulation.threaded_workers import one_thread
from tests.slow_down import HANG_S


def in_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_measuring_in_a_thread_and_in_a_cell_at_once_leaves_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        inside, done = threading.Barrier(2), threading.Barrier(2)
        seen: list[int] = []

        def widget() -> None:
            inside.wait(HANG_S)  # the cell has entered it
            with one_thread():
                seen.append(torch.get_num_threads())
                done.wait(HANG_S)
                done.wait(HANG_S)  # the cell has left it

        thread = threading.Thread(target=widget)
        thread.start()
        with one_thread():
            inside.wait(HANG_S)
            done.wait(HANG_S)
            seen.append(torch.get_num_threads())
        done.wait(HANG_S)
        thread.join()
        assert seen == [1, 1]
        assert torch.get_num_threads() == 4 == in_a_new_thread()
    finally:
        torch.set_num_threads(before)
