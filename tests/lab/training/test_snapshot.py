"""A run as it stood, and its names."""

from gnnqlab.lab.training import snapshot
from gnnqlab.train.loop.scores import score_label
from tests.lab.synthetic import make_run


def test_runs_of_one_system_are_told_apart_by_what_differs() -> None:
    runs = [make_run("fixed-bits", bits=2), make_run("fixed-bits", bits=4), make_run("adaqp")]
    assert snapshot.labels(runs) == ["fixed-bits (bits 2)", "fixed-bits (bits 4)", "adaqp"]
    assert snapshot.labels([make_run(seed=1), make_run(seed=2)]) == ["vanilla (seed 1)", "vanilla (seed 2)"]


def test_equal_runs_are_counted() -> None:
    assert snapshot.labels([make_run(), make_run()]) == ["vanilla #1", "vanilla #2"]


def test_several_labels_a_node_mean_micro_f1() -> None:
    assert score_label({"test_f1_micro": 0.5}) == "micro-F1"
    assert score_label({"test_accuracy": 0.5}) == "accuracy"


def test_a_handle_is_read_once() -> None:
    from gnnqlab.train.config.configure import configure

    class Handle:
        reads = 0
        config = configure("digits", system="fixed-bits", bits=4)
        summary = make_run().summary
        traffic = make_run(epochs=2).traffic

        @property
        def records(self):
            self.reads += 1
            return make_run(epochs=2).records

    handle = Handle()
    taken = snapshot.take(handle)
    assert snapshot.take(taken) is taken and handle.reads == 1
    assert taken.config["system"]["bits"]["bits"] == 4


def test_a_graph_from_a_file_goes_by_its_name() -> None:
    assert snapshot.graph_name({"graph": "/home/ada/graphs/roads.npz"}) == "roads.npz"
    assert snapshot.graph_name({"graph": "sbm:1000,4,8"}) == "sbm:1000,4,8"
