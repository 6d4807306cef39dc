"""Configurations: wrong ones are refused, JSON loses nothing, and the command line can repeat them."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.cli import main
from gnnqlab.settings import settings_in
from gnnqlab.systems.recipe_call import RecipeCall
from gnnqlab.systems.registry import SYSTEMS
from gnnqlab.systems.settings import settings_of
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.presets import ADAQP, SYLVIE
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig, TrainSettings
from tests.cases import each


@each(
    "settings",
    [
        {},
        {"system": "fixed-bits", "bits": 4, "layers": 2, "lr": 0.003, "input_features": "cache"},
        {"system": "random-bits", "bit_widths": (1, 8), "period": 7, "transport": "ring", "workers": 5},
        {"model": "graphsage", "device": "cuda", "backend": "nccl"},
        {"workers": 4, "hosts": 2, "link": "200mbit", "wire": "paced", "vanilla_share": 0.75},
        {"comm_share": 0.75},
        {"task": "links", "num_negatives": 3, "decoder": "mlp", "embedding": 24, "val_share": 0.0},
    ],
)
def test_configuration_survives_json(settings):
    config = gq.configure("digits", **settings)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@each(
    ("settings", "text"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"lr": 0.0}, "lr must be positive, got 0.0"),
        ({"lr": float("nan")}, "lr must be positive, got nan"),
        ({"seed": -1}, r"seed must lie in \[0, 2\*\*63\), got -1"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative, got -1.0"),
        ({"evaluate_every": -1}, "evaluate_every must not be negative, got -1"),
        ({"input_features": "never"}, "input_features must be 'resend' or 'cache', got 'never'"),
        ({"transport": "pigeon"}, "transport must be 'direct', 'ring' or 'all-to-all', got 'pigeon'"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"task": "edges"}, "task must be 'nodes' or 'links', got 'edges'"),
        (
            {"num_negatives": 4},
            "num_negatives 4 needs task 'links', got task 'nodes'; add task 'links', or leave it out",
        ),
        ({"task": "links", "negative_pool": 2}, "negative_pool must be at least 3, got 2"),
        ({"task": "links", "val_share": 0.5, "test_share": 0.5}, "must leave edges for training, got 0.5 and 0.5"),
        ({"task": "links", "system": "cdfgnn"}, "one owner per node, .*, got a partition of edges in system 'cdfgnn'"),
        ({"task": "links", "system": "cagnet"}, "got a partition of blocks in system 'cagnet'; choose a system with"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"model": "gnc"}, "model must be one of .*, got 'gnc'"),
        ({"norm": "batch"}, r"norm of gcn must be one of \('layer', 'none'\), got 'batch'"),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda', got 'tpu'"),
        ({"backend": "mpi"}, "backend must be 'gloo' or 'nccl', got 'mpi'"),
        ({"backend": "nccl"}, "backend 'nccl' moves GPU memory, got device 'cpu'"),
        ({"device": "cuda", "start_method": "fork"}, "start_method 'fork' does not support CUDA"),
        ({"threads_per_worker": 0}, "threads_per_worker must be positive, got 0"),
        ({"input_features": "cache", "input_dropout": 0.5}, "input_features 'cache' sends them once"),
        ({"link": "fast"}, "link must be a number with kbit, mbit or gbit, got 'fast'"),
        ({"link": "1gbit", "hosts": 1}, "link needs several hosts, got hosts 1; choose hosts 2"),
        ({"comm_share": 0.5, "hosts": 1}, "comm_share needs several hosts, got hosts 1"),
        ({"comm_share": 0.5, "link": "1gbit"}, "comm_share chooses the rate of the link, got link '1gbit' as well"),
        ({"comm_share": 1.0}, r"comm_share must lie in \[0.02, 0.98\], got 1.0"),
        ({"hosts": 0}, "hosts must number 1 to 64, got 0"),
        ({"workers": 3, "hosts": 2}, r"workers must be a multiple of the hosts, got 3 worker\(s\) on 2 hosts"),
        ({"workers": 1, "link": "1gbit"}, r"workers must be a multiple of the hosts, got 1 worker\(s\) on 2 hosts"),
        ({"hosts": 2, "backend": "nccl", "device": "cuda"}, "emulated hosts need backend 'gloo', got 'nccl'"),
        ({"wire": "string"}, "wire must be 'auto', 'emulated' or 'paced', got 'string'"),
        ({"colour": "red"}, "with system 'vanilla' is called 'colour'; it has workers, .*, epochs, .*, hidden, "),
        ({"colour": 1, "system": "adaqp"}, "with system 'adaqp' is called 'colour'; it has .*, epochs, .*, lam"),
        ({"colour": 1, "system": gq.systems.vanilla()}, "with system 'vanilla' is called 'colour'; it has .*, epochs"),
        ({"hidden_channels": 16}, "is called 'hidden_channels'; did you mean hidden$"),
        ({"workers": "two"}, "workers must be a whole number, got 'two'"),
        ({"workers": 2.5}, "workers must be a whole number, got 2.5"),
        ({"workers_per_host": "two"}, "workers_per_host must be a whole number, got 'two'"),
        ({"detach": "no"}, "detach must be true or false, got 'no'"),
        ({"model": len}, r"model must be a name, got <built-in .*; pass module:function .*gq.models.register_model"),
        ({"model": "../own_net.py:net"}, r"a module's file must be in this folder, got '../own_net.py'; write own_net"),
        ({"epoch": 3}, "no setting of a run with system 'vanilla' is called 'epoch'; did you mean epochs$"),
        ({"schedule": "sequential"}, r"it is an axis; pass system=gq.systems.vanilla\(\).replace\(schedule=...\), or"),
        ({"learning_rate": 0.1}, "is called 'learning_rate'; did you mean lr$"),
        ({"num_workers": 2}, "is called 'num_workers'; did you mean workers$"),
        ({"bits": 2}, r"system 'vanilla' takes no settings, got \['bits'\]; leave them out or choose another system"),
        ({"heads": 2}, r"heads is a setting of \['gat'\], got 2 for 'gcn'; leave it out"),
        (
            {"partition": "hash"},
            r"partition must be one of \['contiguous', .*'random-edges', 'whole-graph'\], got 'hash'",
        ),
        ({"epochs": "many"}, "epochs must be a whole number, got 'many'"),
        ({"model": "gat", "system": "cagnet", "replication": 2}, "gat needs all terms of a .*got replication 2"),
    ],
)
def test_bad_values_are_refused_with_rule_and_value(settings, text):
    with pytest.raises((ValueError, TypeError), match=text):
        gq.configure("digits", **settings)


def test_whole_numbers_of_other_types_are_accepted():
    config = gq.configure("digits", workers=2.0, epochs=np.int64(3), hidden=8.0, lr=np.float32(0.5))
    values = (config.workers, config.train.epochs, config.model.hidden, config.train.lr)
    assert values == (2, 3, 8, 0.5) and [type(value) for value in values] == [int, int, int, float]
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert gq.configure("digits", seed=np.int64(2**63 - 1)).train.seed == 2**63 - 1
    with pytest.raises(TypeError, match="workers must be a whole number, got 2.0"):
        RunConfig(graph="digits", workers=2.0)


def test_default_evaluation_interval_depends_on_the_system():
    assert gq.configure("digits").train.evaluate_every == 1
    for system in ("pipegcn", "sylvie"):
        config = gq.configure("digits", system=system)
        assert config.train.evaluate_every == config.to_json()["train"]["evaluate_every"] == 10
        assert gq.configure("digits", system=system, evaluate_every=3).train.evaluate_every == 3
        assert "evaluate-every" not in (command_of(config) or "")
        assert "--evaluate-every 1" in (command_of(gq.configure("digits", system=system, evaluate_every=1)) or "")
    # A file without the setting gets the default; the value in a file stays unchanged.
    value = gq.configure("digits", system="pipegcn").to_json()
    assert RunConfig.from_json({**value, "train": {}}).train.evaluate_every == 10
    assert RunConfig.from_json({**value, "train": {"evaluate_every": 1}}).train.evaluate_every == 1


def test_unknown_keys_on_disk_are_refused():
    value = RunConfig(graph="digits").to_json()
    with pytest.raises(ValueError, match=r"a run's configuration has no \['colour'\]"):
        RunConfig.from_json({**value, "colour": "red"})
    with pytest.raises(ValueError, match=r"train has the settings .*, got \['speed'\]"):
        RunConfig.from_json({**value, "train": {"speed": 3}})


def test_start_method_follows_the_device():
    assert LaunchSettings().start_method == "fork"
    assert LaunchSettings(device="cuda").start_method == "spawn"


TABLE_8 = """
reddit           3  256  LayerNorm  Adam  0.01  0.5  500   100   0.5
yelp             3  256  LayerNorm  Adam  0.01  0.1  1000  1000  0.5
ogbn-products    3  256  LayerNorm  Adam  0.01  0.5  250   2000  0.5
amazon-products  3  256  LayerNorm  Adam  0.01  0.5  1200  500   0.5
"""
"""Layers, hidden, norm, optimizer, learning rate, dropout, epochs, group size, λ, as AdaQP prints them."""


def test_presets_are_those_of_table_8():
    for line in TABLE_8.strip().splitlines():
        graph, layers, hidden, norm, optimizer, lr, dropout, epochs, group_size, lam = line.split()
        assert (norm, optimizer) == ("LayerNorm", "Adam")
        for name in ("gcn", "graphsage"):
            model, train = gq.presets.preset(graph, model=name)
            assert (model.name, model.norm, train.weight_decay) == (name, "layer", 0.0)
            assert (model.layers, model.hidden, model.dropout) == (int(layers), int(hidden), float(dropout))
            assert (train.lr, train.epochs) == (float(lr), int(epochs))
        assert gq.presets.preset_system(graph) == gq.systems.adaqp(group_size=int(group_size), lam=float(lam))
    assert len(ADAQP) == len(TABLE_8.strip().splitlines())
    for refused in (gq.presets.preset, gq.presets.preset_system):
        with pytest.raises(ValueError, match="AdaQP Table 8 has presets for the graphs .*, got 'cora'"):
            refused("cora")


TABLE_VI = """
           reddit              yelp                ogbn-products       amazon-products
graphsage  4×256 (2000, 0.5)   4×512 (2000, 0.1)   3×128 (500, 0.3)    4×128 (2000, 0.1)
gcn        4×256 (2000, 0.5)   4×512 (2000, 0.1)   3×128 (500, 0.3)    4×128 (2000, 0.1)
gcnii      8×256 (1000, 0.5)   8×512 (1000, 0.5)   8×128 (500, 0.5)    6×128 (2000, 0.5)
dagnn      8×256 (1000, 0.8)   -                   8×128 (500, 0.8)    6×256 (1000, 0.5)
sgc        8×256 (1000, 0.1)   8×512 (1000, 0)     8×128 (500, 0)      6×256 (500, 0)
gat        2×256 (200, 0.5)    2×256 (1000, 0.1)   3×128 (200, 0.3)    3×128 (1000, 0.1)
jknet      8×128 (800, 0.5)    -                   -                   -
"""
"""Layers × hidden (epochs, dropout), as the paper prints them; JKNet's are in its text."""


def test_presets_are_those_of_table_vi():
    head, *lines = TABLE_VI.strip().splitlines()
    printed = {}
    for line in lines:
        name, *cells = re.split(r"\s{2,}", line)
        for graph, cell in zip(head.split(), cells, strict=True):
            if cell != "-":
                layers, hidden, epochs, dropout = map(float, re.findall(r"[\d.]+", cell))
                printed[name, graph] = (layers, hidden, epochs, dropout)
    ours = {(name, graph): row for name, rows in SYLVIE.items() for graph, row in rows.items()}
    assert ours == printed and len(ours) == 24
    for (name, graph), (layers, hidden, epochs, dropout) in printed.items():
        model, train = gq.presets.preset(graph, model=name, paper="sylvie")
        assert (model.name, model.layers, model.hidden, model.dropout) == (name, layers, hidden, dropout)
        assert (getattr(model, "heads", 1), train.epochs) == (1, epochs)
        # Not from the paper: learning rates of PipeGCN's scripts for three graphs, weight decay of the authors of two
        # models.
        scripts = {"reddit": 0.01, "yelp": 0.001, "ogbn-products": 0.003} if name in ("graphsage", "gcn", "gat") else {}
        assert train.lr == scripts.get(graph, 0.01)
        assert train.weight_decay == {"gcnii": 5e-4, "dagnn": 5e-3}.get(name, 0.0)
    with pytest.raises(ValueError, match="SYLVIE Table VI, jknet, has presets for the graphs .'reddit'., got 'yelp'"):
        gq.presets.preset("yelp", model="jknet", paper="sylvie")


def test_the_command_of_a_run_repeats_it(made_by):
    config = gq.configure(
        "digits", system="fixed-bits", bits=4, layers=2, dropout=0.1, seed=3, transport="ring", workers=3
    )
    assert made_by(command_of(config)) == config


@each("system", SYSTEMS)
def test_every_setting_of_a_recipe_has_an_option(system, made_by):
    other = {"bits": 4, "lam": 0.25, "group_size": 7, "period": 3, "bit_widths": (2, 8), "when": "blocking"}
    other |= {"as_released": True, "parameters": "bfloat16-after"}
    other |= {"delta": 20, "momentum": 0.5, "bound": 3, "formula": "printed"}
    other |= {"p": 0.25, "attention": "none", "clusters_per_worker": 4, "correction": "none", "partition_every": 7}
    other |= {"feature_smoothing": 0.9, "gradient_smoothing": 0.5}
    other |= {"thresholds": (0.6, 0.7, 0.8), "depth": 2}
    other |= {
        "replication": 2,
        "every": 3,
        "warm_up": 4,
        "max_age": 5,
        "iterations": 3,
        "least_gain": 1.5,
        "refresh_every": 4,
    }
    other |= {"product_bits": 6, "scale": "row", "rounding": "nearest", "activation_bits": 4, "ratio": 0.5}
    other |= {"gamma": 0.25, "epsilon": 0.125, "rule": "equation", "totals": "moved", "rotations": 1}
    if system.startswith("sancus"):
        other |= {"rule": "age"}
    other |= {"dropped_by": "receiver" if system.startswith("sylvie") else "owner"}
    settings = {each.name: other[each.name] for each in settings_of(SYSTEMS[system])}
    config = gq.configure("digits", system=system, **settings)
    assert made_by(command_of(config)) == config


@each("section", ["model", "train", "launch"])
def test_every_setting_of_a_run_has_an_option_or_changes_no_result(section):
    without = {
        "name", "start_method", "detach", "vanilla_share", "group_timeout_s", "stall_report_s", "stall_stop_s",
        "observers",
    }  # fmt: skip
    settings = settings_in(type(getattr(RunConfig(graph="digits"), section)))
    assert {each.name for each in settings if each.option is None} <= without
    assert all(each.option == each.name.replace("_", "-") and each.help for each in settings if each.option)
    launch = LaunchSettings(detach=True, group_timeout_s=9.0, stall_report_s=1.0, stall_stop_s=2.0)
    plain = RunConfig(graph="digits")
    assert command_of(dataclasses.replace(plain, launch=launch)) == command_of(plain)


def test_configuration_stores_the_settings_of_its_recipe():
    config = gq.configure("digits", system="adaqp", lam=0.3, bit_widths=(2, 8), partition="random", seed=4)
    value = json.loads(json.dumps(config.to_json()))
    assert value["recipe"] == {"name": "adaqp", "lam": 0.3, "bit_widths": [2, 8], "replaced": ["partition"]}
    again = RunConfig.from_json(value)
    assert again == config and again.system.recipe == config.system.recipe
    assert again.system.partition == gq.partitioners.Random(seed=4)
    line = "--workers 2 --epochs 60 --seed 4 --lam 0.3 --bit-widths 2,8 --partition random"
    assert command_of(again).endswith(line)
    # A recipe's function and its name give the same system; a system with a replaced component has no recipe.
    direct = gq.configure("digits", system=gq.systems.adaqp(lam=0.3, bit_widths=(2, 8)))
    assert (direct.system.recipe.settings, direct.system.recipe.replaced) == (config.system.recipe.settings, ())
    changed = dataclasses.replace(direct.system, schedule=gq.schedules.Synchronous())
    assert gq.configure("digits", system=changed).to_json()["recipe"] is None
    # A setting that JSON cannot represent is not stored, so there is no command line for it either.
    assert RecipeCall("own", {"codec": gq.codecs.Float32()}).to_json() is None


def test_older_file_without_recipe_still_has_a_command_line():
    config = gq.configure("digits", system="sylvie", bound=3, model="gat", heads=2)
    value = json.loads(json.dumps(config.to_json()))
    del value["recipe"]
    # one record had the settings of all models
    value["model"] |= {"initial_share": 0.1, "identity_decay": 0.5, "jump": "cat"}
    again = RunConfig.from_json(value)
    assert again == config and "--stale-bound 3" in command_of(again) and "--heads 2" in command_of(again)
    with pytest.raises(ValueError, match=r"jump is a setting of \['jknet'\], got 'max' for 'gat'; leave it out"):
        RunConfig.from_json({**value, "model": {**value["model"], "jump": "max"}})
    assert value["model"].keys() - config.to_json()["model"].keys() == {"initial_share", "identity_decay", "jump"}


def test_system_that_the_command_line_cannot_express_has_no_command():
    changed = dataclasses.replace(gq.systems.fixed_bits(), schedule=gq.schedules.Overlapped())
    assert command_of(gq.configure("digits", system=changed)) is None
    later = dataclasses.replace(gq.systems.adaqp(), bits=Assigned(first=5))
    assert command_of(gq.configure("digits", system=later)) is None


def test_train_settings_have_the_tables_learning_rate():
    assert TrainSettings().lr == 0.01


def test_a_link_means_two_hosts_and_two_hosts_a_link():
    assert LaunchSettings(link="100mbit").hosts == 2
    assert LaunchSettings(comm_share=0.75).hosts == 2
    assert LaunchSettings(hosts=4).link == "1gbit"
    assert (LaunchSettings().hosts, LaunchSettings().link) == (1, None)
    assert LaunchSettings(hosts=2, comm_share=0.75).link is None


def test_workers_of_a_host_make_the_number_of_workers():
    assert gq.configure("digits", hosts=3, workers_per_host=2).workers == 6
    config = gq.configure("digits", workers_per_host=4, link="1gbit")
    assert (config.workers, config.launch.hosts) == (8, 2)
    assert gq.configure("digits").workers == 2
    with pytest.raises(ValueError, match="workers must be hosts times workers_per_host, got 3 for 2 times 2"):
        gq.configure("digits", workers=3, workers_per_host=2)


def test_node_only_functions_reject_link_prediction(capsys):
    config = gq.configure("sbm:60,3,6", task="links")
    for what, ask in {
        "gq.probe": lambda: gq.probe("sbm:60,3,6", task="links"),
        "gq.probe supports": lambda: gq.probe(config),
        "gq.theory.check": lambda: gq.theory.check(config),
    }.items():
        with pytest.raises(ValueError, match=f"{what}.* task 'nodes'.*, got task 'links'; pass a configuration of"):
            ask()
    with pytest.raises(SystemExit):
        main(["compare", "--graph", "digits", "--task", "links", "--mini-batch"])
    assert "--mini-batch supports task 'nodes' only" in capsys.readouterr().err


def test_command_contains_the_link_prediction_task(made_by):
    config = gq.configure("digits", task="links", num_negatives=2, test_share=0.2)
    line = "gnnqlab train --graph digits --system vanilla --model gcn --workers 2 --epochs 60"
    assert command_of(config) == f"{line} --task links --test-share 0.2 --num-negatives 2"
    assert made_by(command_of(config)) == config
