"""The rank of a process, from the environment variables of each starter."""

import pytest

from gnnqlab.launch.starters import STARTERS, read_rank

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "m0"}
OPEN_MPI = {f"OMPI_COMM_WORLD_{name}": value for name, value in (("RANK", "3"), ("SIZE", "4"))}
OPEN_MPI |= {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "m0"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "MASTER_ADDR": "m0"}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "m[0-1]",
}
SUBMITIT = {"SUBMITIT_LOCAL_GLOBALID": "1", "SUBMITIT_LOCAL_NTASKS": "2", "SUBMITIT_LOCAL_LOCALID": "1"}


@pytest.mark.parametrize(
    ("environ", "starter"),
    [(TORCHRUN, "torchrun"), (OPEN_MPI, "mpirun of Open MPI"), (MPICH, "mpirun of MPICH"), (SRUN, "srun")],
)
def test_read_rank_of_each_starter(environ: dict[str, str], starter: str) -> None:
    found = read_rank(environ, "x")
    assert (found.starter, found.rank, found.workers, found.local_rank, found.local_workers) == (starter, 3, 4, 1, 2)
    assert found.address == "m0" and 20000 <= found.port < 30000
    assert read_rank({**environ, "MASTER_PORT": "29501"}, "x").port == 29501


def test_ranks_on_one_machine_meet_on_the_loopback_at_a_port_of_the_run() -> None:
    found = read_rank(SUBMITIT, "x")
    assert (found.starter, found.rank, found.workers, found.address) == ("submitit", 1, 2, "127.0.0.1")
    assert found.port == read_rank({**SUBMITIT, "SUBMITIT_LOCAL_GLOBALID": "0"}, "x").port
    assert found.port != read_rank(SUBMITIT, "y").port


@pytest.mark.parametrize("outer", [SRUN, OPEN_MPI])
def test_innermost_starter_counts(outer: dict[str, str]) -> None:
    assert read_rank({**outer, **TORCHRUN}, "x").starter == "torchrun"
    assert read_rank({**SRUN, **OPEN_MPI}, "x").starter == "mpirun of Open MPI"
    # srun with PMI-2 sets the variables of MPICH too, except the local ones.
    assert read_rank({**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4"}, "x").starter == "srun"


@pytest.mark.parametrize(
    ("nodes", "first"), [("n[01-04,7],m1", "n01"), ("a,b", "a"), ("n7", "n7"), ("r[1,3]n[2-4]-ib", "r1n2-ib")]
)
def test_first_machine_of_a_slurm_list(nodes: str, first: str) -> None:
    assert read_rank({**SRUN, "SLURM_STEP_NODELIST": nodes}, "x").address == first


def test_slurm_counts_ranks_of_unequal_machines() -> None:
    uneven = {**SRUN, "SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_TASKS_PER_NODE": "1(x3),2", "SLURM_NODEID": "3"}
    assert read_rank(uneven, "x").local_workers == 2


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, "got none of RANK, SUBMITIT_LOCAL_GLOBALID, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "got no LOCAL_RANK, LOCAL_WORLD_SIZE"),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "a rank of srun must have .*got no SLURM_STEP_NUM_TASKS"),
        ({**TORCHRUN, "RANK": "4"}, "RANK and WORLD_SIZE of torchrun must agree, got '4' and '4'"),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, "LOCAL_RANK and LOCAL_WORLD_SIZE of torchrun must agree"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "5"}, "LOCAL_WORLD_SIZE and WORLD_SIZE of torchrun must agree"),
        ({**TORCHRUN, "RANK": "one"}, "RANK must be a whole number of at least 0, got 'one'"),
        ({**TORCHRUN, "MASTER_PORT": "http"}, "MASTER_PORT must be a whole number"),
        ({**OPEN_MPI, "MASTER_ADDR": ""}, "MASTER_ADDR must be the address of the machine of rank 0, got none"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "two"}, "must be a list such as 2\\(x3\\),1, got 'two'"),
        ({**SRUN, "SLURM_NODEID": "2"}, "SLURM_NODEID must be below the 2 machines"),
    ],
)
def test_missing_or_contradictory_variables_raise_by_name(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_rank(environ, "x")


def test_starters_have_names_of_their_own() -> None:
    assert len({starter.name for starter in STARTERS}) == len({starter.rank for starter in STARTERS}) == len(STARTERS)
