"""Faults in the graph and its cuts: degrees, splits, importance, what a cut costs."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="degrees of the edges here",
        file="partition/replica_shard.py",
        before="in_degrees=degrees[nodes],",
        after="in_degrees=indptr.diff(),",
        test="partition/test_replica_shard.py::test_sums_use_the_degrees_of_the_whole_graph",
        why="each worker of a cut of edges would normalise by its own part of a node's neighbours",
    ),
    Fault(
        name="mirrors are trained on too",
        file="partition/replica_shard.py",
        before="train_mask=graph.train_mask[nodes] & masters,",
        after="train_mask=graph.train_mask[nodes],",
        test="partition/test_replica_shard.py::test_edges_and_nodes_are_all_there_once",
        why="a node's loss would count once a copy",
    ),
    Fault(
        name="features standardized by all nodes",
        file="graph/sources/graphsaint.py",
        before="known = features[train].astype",
        after="known = features.astype",
        test="graph/sources/test_folders.py::test_yelp_is_standardized_by_its_training_nodes",
        why="test nodes would have a say in what is trained on",
    ),
    Fault(
        name="out-degrees for in-degrees",
        file="partition/shard.py",
        before="in_degrees=degrees[nodes],",
        after="in_degrees=graph.out_degrees[nodes],",
        test="partition/test_shard.py::test_alpha_comes_from_global_degrees",
        why="α of directed graphs would be wrong, and no undirected one would show it",
    ),
    Fault(
        name="test nodes validate",
        file="partition/shard.py",
        before="val_mask=graph.val_mask[owned],",
        after="val_mask=graph.test_mask[owned],",
        test="train/test_objective.py::test_shares_of_workers_add_up_to_the_loss_and_their_splits_to_the_graphs",
        why="the epoch to report would be chosen by the test score",
    ),
    Fault(
        name="a mean by the root of the degree",
        file="partition/shard.py",
        before="in_clamped.reciprocal(), counts",
        after="in_clamped.rsqrt(), counts",
        test="nn/test_models.py::test_attention_without_preference_is_the_mean",
        why="GraphSAGE would be another model, on one worker and on many alike",
    ),
    Fault(
        name="importance by the number of boundary nodes",
        file="partition/importance.py",
        before="return below.float() / below_largest",
        after="return below.float() / in_degrees.numel()",
        test="partition/test_importance.py::test_equal_degrees_are_equally_important_and_the_largest_has_one",
        why="no node would ever have importance 1, nor the widest rows",
    ),
    Fault(
        name="cut edges counted as remote neighbours",
        file="partition/quality.py",
        before="remote_ratio=int(halo_rows.sum()) /",
        after="remote_ratio=cut /",
        test="partition/test_shard.py::test_quality_agrees_with_a_count_over_edges",
        why="AdaQP's Table 1 would be compared with another quantity",
    ),
    Fault(
        name="bytes of a pair rounded down",
        file="partition/quality.py",
        before="self.halo_rows * -(-columns * bits // 8)",
        after="self.halo_rows * (columns * bits // 8)",
        test="partition/test_shard.py::test_quality_agrees_with_a_count_over_edges",
        why="what a partition sends would be less than is sent",
    ),
)
