"""Every implemented item of the papers has a module that cites it, a test, and a notebook that shows it.

The rows are those of the catalogue of the papers' items, and a few that it lacks; if it lies next to the repository
(``../shared/papers``, or the folder that ``GNNQLAB_PAPERS`` names), the ids below are compared with its own.

This is an index: it names modules and tests, and does not check any formula. ``tests/mutants`` checks that the
tests notice errors.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.cases import each

ROOT = Path(__file__).parent.parent
CATALOGUE = Path(os.environ.get("GNNQLAB_PAPERS", ROOT.parent / "shared" / "papers")) / "CATALOGUE.md"


@dataclass(frozen=True)
class Item:
    """One row."""

    homes: str
    """``module:name`` in gnnqlab, or in benchmarks, several separated by blanks."""
    cites: str
    """Words that are in the file of one of these modules."""
    tests: str
    """``file::test`` in tests, several separated by blanks."""
    shown: tuple[tuple[str, str], ...]
    """Number of a notebook, and words in it."""
    missing: str = ""
    """Parts of the row that are not implemented, and the reason."""


ITEMS = {
    "AQ-E1..3": Item(
        "nn.message_passing:GraphPass.aggregate partition.shard:Shard.alpha",
        "AdaQP Eq. 3",
        "partition/test_shard.py::test_alpha_comes_from_global_degrees nn/test_law.py::test_workers_equal_one_process",
        (("02", "AdaQP Eqs. 1–3"),),
    ),
    "AQ-E4,E5": Item(
        "message.codecs.codec:Stochastic",
        "AdaQP Eqs. 4, 5",
        "kernels/test_codec.py::test_bytes_are_the_same_everywhere "
        "kernels/test_codec.py::test_decoding_is_unbiased_with_the_variance_of_the_theory",
        (("04", "AdaQP Eqs. 4 and 5"),),
    ),
    "AQ-Th1, E13–17": Item(
        "theory.variance:decoded_moments course.error_views:variance_chart",
        "AdaQP Theorem 1, Eqs. 13-17",
        "theory/test_variance.py::test_theorem_1_moments_match_the_decoded_rows",
        (("04", "Theorem 1"),),
    ),
    "AQ-Th2, E8, E18–22": Item(
        "theory.convergence:convergence_bound theory.convergence:smoothness simulation.convergence_check:convergence",
        "AdaQP Theorem 2, Eqs. 8, 18-22",
        "simulation/test_convergence_check.py::test_gradients_lie_under_the_bound",
        (("05", "*Theorem 2*"),),
    ),
    "AQ-Th3, E9, E23–28": Item(
        "theory.variance:gradient_variance_bound simulation.theory_check:gradient_variance",
        "AdaQP Theorem 3, Eqs. 9, 23-28",
        "theory/test_variance.py::test_theorem_3_in_its_own_setting "
        "theory/test_variance.py::test_terms_of_theorem_3_by_hand "
        "simulation/test_theory_check.py::test_smooth_models_lie_under_the_bound",
        (("05", "*Theorem 3*"),),
    ),
    "AQ-E10": Item(
        "theory.cost:fit theory.cost:LinkCost theory.cost:ring_s",
        "AdaQP Eq. 10",
        "theory/test_cost.py::test_ring_rounds_are_those_of_the_transport "
        "bits/test_assigner.py::test_links_are_timed_before_the_first_assignment",
        (("06", "Eq. 10"),),
    ),
    "AQ-E11": Item(
        "bits.assigner.groups:beta bits.assigner.groups:use_of_halo",
        "AdaQP Eq. 11",
        "bits/test_groups.py::test_use_of_halo_equals_the_variance_added_to_all_sums "
        "bits/test_groups.py::test_beta_is_the_variance_that_theorem_1_gives_a_row",
        (("06", "AdaQP, Eq. 11"),),
    ),
    "AQ-E12": Item(
        "bits.assigner.solver:solve bits.assigner.reference:solve_reference bits.assigner.pareto:front_over_lam "
        "bits.assigner.problem:Problem",
        "Eq. 12",
        "bits/test_solver.py::test_agrees_with_highs "
        "bits/test_solver.py::test_front_falls_in_variance_as_it_rises_in_time",
        (("06", "(Eq. 12)"), ("22", "AdaQP Eq. 12")),
    ),
    "AQ-T1": Item(
        "partition.quality:measure_quality launch.calibrate:calibrate",
        "AdaQP Table 1",
        "partition/test_shard.py::test_quality_agrees_with_a_count_over_edges "
        "launch/test_calibrate.py::test_search_reaches_the_target_share_within_one_percentage_point",
        (("02", "AdaQP, Table 1"), ("07", "AdaQP, Table 1")),
    ),
    "AQ-T2, F3": Item(
        "lab.training.hiding_table:hiding_table",
        "AdaQP Table 2 and Fig. 3",
        "lab/training/test_timeline_view.py::test_the_table_of_workers",
        (("07", "Table 2 and Figure 3"),),
    ),
    "AQ-F2": Item(
        "course.players.partition_views:pair_table course.players.partition_views:draw_pairs",
        "AdaQP Fig. 2",
        "course/players/test_partition_views.py::test_the_tables_are_those_a_reader_counts",
        (("02", "AdaQP's Figure 2"),),
    ),
    "AQ-F5..8": Item(
        "lab.training.timeline_view:timeline_chart course.players.assigner_player:AssignerPlayer "
        "exchange.cuda_streams:stages_on message.transport.transport:Ring",
        "AdaQP's three stages (section 3.2, Fig. 7)",
        "lab/training/test_timeline_view.py::test_a_panel_a_run_and_two_lines_a_worker "
        "course/players/test_assigner_player.py::test_every_step_has_axes_caption_and_numbers "
        "exchange/test_cuda_streams.py::test_three_stages_apart_from_each_other "
        "nn/test_law.py::test_every_transport_obeys",
        (("07", "Fig. 5"), ("06", "AdaQP's Figure 6")),
    ),
    "AQ-T4, F9, F12": Item(
        "systems:adaqp systems:pipegcn benchmarks.studies.systems:systems benchmarks.studies.link:over_link "
        "lab.training.plots:convergence "
        "course.paper_figures:compare_with_papers",
        "AdaQP Table 4",
        "benchmarks/test_link.py::test_all_systems_are_measured_over_one_link "
        "benchmarks/test_systems.py::test_time_to_accuracy_uses_only_seeds_that_reached_the_target "
        "course/experiments/test_sensitivity.py::test_total_times_and_one_server_are_those_of_the_printed_tables",
        (("08", "Accuracy by *time*"), ("08", "AdaQP, Table 4")),
        "SANCUS has a table of its own, `gnnqlab bench broadcasts`",
    ),
    "AQ-T5, T9": Item(
        "lab.training.comparison_table:seconds_to course.paper_figures:compare_with_papers "
        "bits.assigner.assigned:Assigner",
        "AdaQP Tables 5 and 9",
        "lab/training/test_comparison_table.py::test_the_first_epoch_that_gets_there_counts_with_all_before_it "
        "lab/training/test_comparison_table.py::test_assignment_counts_and_evaluation_does_not "
        "course/experiments/test_sensitivity.py::test_total_times_and_one_server_are_those_of_the_printed_tables "
        "bits/test_assigner.py::test_background_installs_one_epoch_after_blocking",
        (("08", "AdaQP, Tables 5 and 9"), ("08", "Assigning bit-widths takes")),
    ),
    "AQ-T6": Item(
        "bits.policy:UniformRandom systems:random_bits benchmarks.studies.variance:variance",
        "AdaQP Table 6",
        "benchmarks/test_variance.py::test_adaptive_widths_have_less_variance_than_random_ones",
        (("06", "Table 6"), ("08", "AdaQP, Table 6")),
    ),
    "AQ-F10": Item(
        "lab.training.plots:breakdown lab.figures.frames:phase_seconds",
        "AdaQP Fig. 10",
        "lab/training/test_plots.py::test_the_bars_of_a_worker_add_up_to_its_epoch",
        (("08", "AdaQP, section 5.4"),),
    ),
    "AQ-F11": Item(
        "course.experiments.sensitivity:sensitivity_chart course.experiments.sensitivity:group_size_table "
        "lab.tuner.tuner:Tuner bits.assigner.pareto:front_over_lam",
        "AdaQP Fig. 11",
        "bits/test_solver.py::test_front_falls_in_variance_as_it_rises_in_time "
        "course/experiments/test_time_and_variance.py::test_group_sizes_have_a_line_for_each_seed "
        "tune/test_probe.py::test_drift_grows_with_age_and_decides_the_period",
        (("08", "AdaQP, Figure 11"),),
    ),
    "AQ-T8": Item(
        "train.config.presets:preset train.config.presets:preset_system",
        "AdaQP Table 8",
        "train/test_config.py::test_presets_are_those_of_table_8",
        (),
        "a table of settings has nothing to show; gq.presets.preset and gq.presets.preset_system know it",
    ),
    "SY-E1..4": Item(
        "message.codecs.codec:Stochastic nn.message_passing:GraphPass.aggregate",
        "SYLVIE Eq. 3",
        "kernels/test_codec.py::test_pack_is_undone_by_unpack_and_has_the_promised_size "
        "message/test_codec.py::test_rows_of_every_width_in_one_message_err_by_less_than_a_step",
        (("04", "SYLVIE Eq. 3"),),
    ),
    "SY-II-A": Item(
        "nn.models.gcn:gcn nn.models.graphsage:graphsage nn.models.gat:gat nn.models.gcnii:GCNII nn.models.dagnn:DAGNN "
        "nn.models.sgc:SGC nn.models.jknet:JKNet",
        "SYLVIE trains",
        "nn/test_law.py::test_every_model_obeys_at_depth_32 nn/test_against_dgl.py::test_dagnn "
        "nn/test_against_dgl.py::test_jknet",
        (("09", "SYLVIE section II-A"),),
    ),
    "SY-IV-A": Item(
        "partition.importance:importance bits.orchestrator:by_importance "
        "course.experiments.moving_widths:draw_importance course.experiments.width_decisions:importance_ablation",
        "SYLVIE section IV-A",
        "partition/test_importance.py::test_shards_agree_about_every_boundary_node "
        "course/experiments/test_width_decisions.py::test_higher_bit_widths_go_to_the_rows_ranked_highest_by_each_mask",
        (("10", "section IV-A"),),
    ),
    "SY-E5": Item(
        "bits.assigner.descent:Descent bits.orchestrator:Orchestrated",
        "Eq. 5",
        "train/test_coordinator.py::test_the_running_loss_and_its_rate_by_hand "
        "train/test_coordinator.py::test_a_slower_descent_widens_and_a_faster_one_narrows",
        (("10", "SYLVIE section V-A, Eq. 5"),),
    ),
    "SY-F7": Item(
        "bits.orchestrator:by_importance bits.orchestrator:OrchestratedWidths "
        "course.experiments.moving_widths:rows_by_width",
        "SYLVIE Fig. 7",
        "bits/test_orchestrator.py::test_the_candidates_are_the_base_and_wider_ones "
        "bits/test_orchestrator.py::test_a_message_has_its_nodes_widths_in_its_own_order",
        (("10", "gets the base, the next quarter the next bit-width"),),
    ),
    "SY-V-B, F8": Item(
        "exchange.schedules.pipeline:AdaptivePipeline course.experiments.staleness:draw_epoch",
        "SYLVIE section V-B",
        "exchange/test_pipeline.py::test_fresh_epochs_between train/test_coordinator.py::test_staleness_is_bounded "
        "exchange/test_staleness.py::test_used_rows_were_sent_exactly_one_epoch_before",
        (("11", "SYLVIE section V-B, Fig. 8"),),
    ),
    "SY-V-C": Item(
        "bits.assigner.descent:Watch bits.orchestrator:Orchestrator "
        "exchange.schedules.staleness_switch:StalenessSwitch",
        "sections V-A to V-C",
        "train/test_coordinator.py::test_every_decision_has_its_epoch_and_reason "
        "train/test_coordinator.py::test_all_workers_decide_alike",
        (("10", "decisions"),),
    ),
    "SY-TII": Item(
        "course.experiments.depth:kinds_of_bytes",
        "SYLVIE Table II",
        "course/experiments/test_depth.py::test_columns_are_those_of_the_table",
        (("09", "SYLVIE's Table II"),),
    ),
    "SY-TIV, TX": Item(
        "systems:fixed_bits benchmarks.studies.accuracy:accuracy",
        "Tables VII (every model), X (bit-widths)",
        "benchmarks/test_accuracy.py::test_paper_order_is_checked_on_means_and_insignificant_gaps_are_marked",
        (("09", "SYLVIE, Table IV"), ("10", "SYLVIE, Table X:")),
    ),
    "SY-TXI": Item(
        "exchange.schedules.pipeline:AdaptivePipeline benchmarks.studies.accuracy:accuracy",
        "and XI (staleness)",
        "benchmarks/test_accuracy.py::test_stale_epochs_are_counted_from_decisions",
        (("11", "SYLVIE, Table XI:"),),
    ),
    "SY-TVII, F9, F10": Item(
        "benchmarks.studies.throughput:throughput systems:sylvie systems:pipegcn systems:bns_gcn systems:sar "
        "course.experiments.depth:train_models",
        "Fig. 9",
        "benchmarks/test_systems.py::test_time_to_accuracy_uses_only_seeds_that_reached_the_target "
        "course/experiments/test_sensitivity.py::test_ranges_are_those_of_the_printed_figures",
        (("09", "SYLVIE, Table VII"), ("11", "SYLVIE Table VII"), ("23", "SYLVIE's Table VII")),
        "SAR's memory and seconds are in gnnqlab bench memory; its epochs are not in the table of times",
    ),
    "SY-TXII, F13": Item(
        "lab.training.comparison_table:comparison_frame course.experiments.width_decisions:overhead "
        "course.experiments.sylvie_readings:readings",
        "SYLVIE Table XII",
        "course/experiments/test_width_decisions.py::test_seconds_of_a_run_are_the_mean_of_workers "
        "course/experiments/test_sensitivity.py::test_reported_quotients_agree_with_the_text_of_the_papers",
        (("26", "SYLVIE, Table XII:"),),
    ),
    "SY-F11": Item(
        "course.experiments.moving_widths:replay bits.assigner.descent:Descent",
        "Fig. 11 by δ",
        "course/experiments/test_moving_widths.py::test_first_decision_is_made_after_two_measured_rates "
        "train/test_coordinator.py::test_decisions_are_taken_after_every_epoch_from_delta_plus_one_on",
        (("10", "SYLVIE's Figure 11"),),
    ),
    "SY-F12": Item(
        "course.experiments.width_decisions:draw_overhead",
        "SYLVIE Figs. 12 and 13",
        "course/experiments/test_width_decisions.py::test_shares_are_drawn",
        (("26", "Figure 12"),),
    ),
    "CD-T2": Item(
        "tune.wire:Wire.by_tier lab.figures.frames:by_tier course.experiments.host_connections:connections_by_gamma",
        "CDFGNN Eq. 24, Table 3",
        "tune/test_bytes.py::test_tiers_are_those_of_the_records "
        "course/experiments/test_host_connections.py::test_lines_are_those_of_the_cuts",
        (("14", "two emulated hosts with two workers each"),),
    ),
    "CD-E24": Item(
        "partition.ebv:EBV kernels.sparse.vertex_cut:place_by_cost kernels.reference.vertex_cut:place_by_cost",
        "CDFGNN Eq. 24",
        "partition/test_vertex_cut.py::test_cost_of_an_edge_by_hand "
        "partition/test_vertex_cut.py::test_compiled_loops_place_as_the_reference_does "
        "partition/test_vertex_cut.py::test_a_home_saves_rows_between_hosts_and_costs_rows_within",
        (("12", "CDFGNN Eq. 24"),),
    ),
    "CD-T3": Item(
        "partition.connections:measure_vertex_cut benchmarks.studies.cuts:cuts",
        "CDFGNN Table 3",
        "partition/test_vertex_cut.py::test_quality_of_a_vertex_cut_by_hand "
        "benchmarks/test_cuts.py::test_every_partitioner_is_compared_with_plain_ebv",
        (("12", "CDFGNN's Table 3"),),
    ),
    "SY-TI": Item(
        "benchmarks.studies.fanouts:fanouts train.dgl_mini_batch:MiniBatch course.paper_figures:compare_with_papers",
        "SYLVIE Table I",
        "benchmarks/test_fanouts.py::test_differences_are_of_the_same_seed "
        "benchmarks/test_fanouts.py::test_every_fan_out_of_the_table_trains_above_80_percent",
        (("09", "SYLVIE, Table I:"),),
    ),
    "SY-TIX": Item(
        "course.paper_figures:compare_with_papers lab.training.comparison_table:comparison_frame",
        "Table IX",
        "course/experiments/test_sensitivity.py::test_total_times_and_one_server_are_those_of_the_printed_tables "
        "lab/figures/test_frames.py::test_comparison_is_against_the_first_run",
        (("09", "SYLVIE, Table IX"),),
        "beside the printed table stand no measured epochs of all systems without a link",
    ),
    "SY-F2": Item(
        "lab.training.plots:breakdown course.paper_figures:compare_with_papers",
        "SYLVIE Fig. 2",
        "lab/training/test_plots.py::test_the_bars_of_a_worker_add_up_to_its_epoch "
        "train/test_record.py::test_seconds_of_a_summary_are_those_of_its_phases",
        (("07", "SYLVIE, section II-B, Figure 2"),),
    ),
    "SY-F3": Item(
        "lab.training.plots:breakdown course.paper_figures:compare_with_papers",
        "SYLVIE Fig. 3",
        "lab/training/test_plots.py::test_the_bars_of_a_worker_add_up_to_its_epoch "
        "course/experiments/test_sensitivity.py::test_reported_quotients_agree_with_the_text_of_the_papers",
        (("10", "SYLVIE, section II-C, Figure 3"),),
    ),
    "SY-F6": Item(
        "course.experiments.width_decisions:draw_plan lab.training.plots:convergence",
        "SYLVIE Fig. 6(b)",
        "course/experiments/test_width_decisions.py::test_the_picture_adds_bytes_up",
        (("26", "SYLVIE's Figure 6"),),
    ),
    "CD-A1, E1..5": Item(
        "exchange.vertex_cut.exchange:Replicas exchange.vertex_cut.mirrors:Mirrors "
        "exchange.vertex_cut.sums:SumBackward "
        "exchange.vertex_cut.attention:Attend partition.replica_shard:ReplicaShard",
        "CDFGNN Algorithm 1",
        "exchange/test_replica.py::test_workers_equal_one_process "
        "exchange/test_replica.py::test_copies_of_a_node_are_equal_bit_by_bit "
        "exchange/test_meeting.py::test_workers_that_meet_equal_one_process",
        (("12", "two rounds: gather and scatter"),),
    ),
    "CD-A2": Item(
        "message.caches.adaptive_cache:AdaptiveCache kernels.rowwise.row_change:row_moves "
        "kernels.rowwise.row_change:row_changes",
        "CDFGNN's Algorithm 2",
        "exchange/test_adaptive_cache.py::test_it_is_the_dense_training_that_skips_the_same_rows "
        "exchange/test_adaptive_cache.py::test_sender_and_receiver_caches_are_bit_identical_for_every_codec "
        "exchange/test_replica.py::test_copies_of_a_node_are_equal_bit_by_bit",
        (("13", "CDFGNN Algorithm 2"),),
    ),
    "CD-E6, E7": Item(
        "message.caches.adaptive_cache:AdaptiveCache.next_epsilon message.caches.adaptive_cache:Threshold",
        "(Eq. 6, in the reading of ``rule``)",
        "message/test_adaptive_cache.py::test_it_relaxes_after_a_gain_and_tightens_after_a_loss "
        "message/test_adaptive_cache.py::test_as_printed_it_is_the_other_way_round",
        (("13", "CDFGNN Eqs. 6, 7"),),
    ),
    "CD-Th1, L1–3": Item(
        "theory.cache:cache_bound theory.cache:forward_error theory.cache:backward_error theory.cache:product_bound "
        "simulation.cache_check:cache_error",
        "CDFGNN Theorem 1, Eqs. 17 to 21",
        "theory/test_cache.py::test_theorem_1_holds_with_its_cross_term "
        "theory/test_cache.py::test_lemma_2_holds_where_rows_are_held_by_the_rule "
        "simulation/test_cache_check.py::test_the_bound_holds_over_a_descent_in_which_rows_stay_home_and_epsilon_moves",
        (("13", "Lemmas 1 to 3"),),
    ),
    "CD-E22, E23": Item(
        "message.codecs.linear:Linear kernels.codec.linear:encode_linear",
        "CDFGNN Eqs. 22 and 23",
        "message/test_linear.py::test_no_element_is_off_by_more_than_the_bound_and_one_is_off_by_it",
        (("13", "Eqs. 22, 23"),),
    ),
    "CD-F7": Item(
        "lab.training.cache_view:draw_cache lab.training.compare:Comparison.cache train.records.cache_stats:read_cache",
        "CDFGNN Fig. 7",
        "lab/training/test_cache_view.py::test_cache_chart_shows_the_recorded_rows "
        "lab/training/test_cache_view.py::test_comparison_draws_the_cache_of_the_selected_run",
        (("13", "CDFGNN's Figure 7"),),
    ),
    "TG-E1,E2": Item(
        "kernels.codec.quantize:quantize compute.amax:largest_of_all kernels.dense.code_rows:PairedRows",
        "TANGO Eqs. 1 to 3",
        "kernels/test_quantize.py::test_an_element_is_off_by_less_than_a_step_and_codes_stay_in_their_range "
        "kernels/test_code_rows.py::test_rows_are_quantized_into_the_pairs_of_their_codes "
        "exchange/test_int8.py::test_workers_equal_one_process",
        (("15", "TANGO Eqs. 1 to 3"),),
    ),
    "TG-E3": Item(
        "kernels.codec.quantize:NoiseCounter kernels.codec.quantize:quantize benchmarks.studies.int8:measure_rounding",
        "draws its noise from a generator in registers",
        "kernels/test_quantize.py::test_noise_makes_it_unbiased_and_nearest_is_not",
        (("15", "rounds some of them up, at random, and is unbiased"),),
        "the noise comes from Philox, as a function of the node, and not from its generator",
    ),
    "TG-E4, F2": Item(
        "compute.bit_rule:relative_error compute.bit_rule:BitChoice",
        "(SC 2023, Eq. 4)",
        "compute/test_bit_rule.py::test_heavier_tails_need_more_bits "
        "exchange/test_int8_bits.py::test_all_workers_choose_the_bit_width_of_one_process",
        (("15", "Eq. 4, with magnitudes"),),
        "of Fig. 2 its second panel is drawn",
    ),
    "TG-E5,E6": Item(
        "compute.int8:Int8Products benchmarks.studies.tango:ROUNDED",
        "stores float32 weights (section 3.2)",
        "exchange/test_int8.py::test_weights_move_by_less_than_a_code "
        "benchmarks/test_tango.py::test_rounded_weights_are_codes_after_every_update",
        (),
        "gnnqlab bench tango trains with rounded weights beside float32 ones; no notebook does",
    ),
    "TG-E7,E8": Item(
        "compute.int8:Int8Products course.experiments.errata_systems:logits_on_codes",
        "(section 3.2, Eqs. 7, 8)",
        "nn/test_compute.py::test_the_layer_before_the_loss_is_exact "
        "compute/test_int8.py::test_halves_of_logits_are_rounded_only_where_they_may_be",
        (("15", "*Test1* quantizes the last layer too"),),
    ),
    "TG-F3,F4": Item(
        "kernels.dense.int8_mm:int8_mm kernels.dense.int8_mm:int8_mm_transposed kernels.dense.int8_mm:int8_mm_scaled",
        "(TANGO, section 3.3)",
        "kernels/test_int8_mm.py::test_rows_by_a_matrix kernels/test_int8_mm.py::test_sums_over_rows",
        (("15", "dense products (GEMM)"),),
    ),
    "TG-F5": Item(
        "kernels.sparse.int8_edges:incidence kernels.sparse.int8_edges:quantized_sum",
        "(TANGO, section 3.3)",
        "nn/test_dgl.py::test_plain_sums_and_means_of_nodes_and_edges "
        "kernels/test_int8_edges.py::test_a_sum_that_quantizes_on_its_way_is_that_of_the_codes",
        (("15", "*incidence* matrix"),),
    ),
    "TG-F6": Item(
        "kernels.sparse.int8_edges:int8_weighted_sum kernels.sparse.head_sums:head_sums "
        "compute.edge_products:WeightedSum",
        "(TANGO, section 3.3)",
        "kernels/test_int8_edges.py::test_products_are_those_of_the_widened_rows "
        "nn/test_dgl.py::test_weighed_sums_stay_within_the_rounding_of_rows "
        "kernels/test_head_sums.py::test_the_faster_way_is_measured_once_and_taken",
        (("15", "The multi-head sum is"),),
    ),
    "TG-F15": Item(
        "kernels.sparse.int8_edges:int8_sddmm_add kernels.sparse.int8_edges:int8_sddmm_dot",
        "(TANGO, section 3.3)",
        "kernels/test_int8_edges.py::test_products_are_those_of_the_widened_rows",
        (("15", "SDDMM add"),),
    ),
    "TG-3.3": Item(
        "compute.codes:Quantized compute.saved:save_operands",
        "(TANGO section 3.3, reuse)",
        "compute/test_int8.py::test_operands_are_quantized_once_and_saved_as_codes "
        "nn/test_dgl.py::test_operators_that_share_an_input_share_its_codes "
        "exchange/test_int8.py::test_rows_that_are_rounded_twice_are_counted",
        (("16", "## Reused codes"),),
        "received codes multiplied as they are",
    ),
    "TG-F7": Item(
        "benchmarks.studies.tango:tango",
        "TANGO's Figs. 7 and 8",
        "benchmarks/test_tango.py::test_they_train_once_and_are_shown_again",
        (("15", "Rounding to nearest (Test2)"),),
    ),
    "TG-F8": Item(
        "benchmarks.studies.tango:tango benchmarks.studies.exact:exact",
        "TANGO's Figs. 7 and 8",
        "benchmarks/test_tango.py::test_seconds_to_accuracy_are_those_of_seeds_with_which_both_got_there "
        "benchmarks/test_tango.py::test_dgl_trains_as_ours_do",
        (("15", "times as fast as EXACT"),),
    ),
    "TG-F9": Item(
        "train.mini_batch:MiniBatchTrainer train.gradient_codes:AsCodes message.channels.remote_rows:RemoteRows "
        "benchmarks.studies.parallel_batches:minibatch benchmarks.kernels.dgl_batches:DglLoop",
        "(TANGO, SC 2023, section 4, Fig. 9)",
        "train/test_mini_batch.py::test_workers_equal_one_process "
        "train/test_mini_batch.py::test_bytes_are_those_of_the_formula "
        "train/test_mini_batch.py::test_overlap_changes_no_bit "
        "message/test_asked.py::test_codes_are_unbiased_and_own_rows_stay "
        "train/test_gradient_codes.py::test_their_mean_is_the_sum "
        "benchmarks/test_parallel_batches.py::test_contestants_are_measured",
        (),
        "gnnqlab bench minibatch prints it over links between processes, not on several GPUs, and no notebook shows it",
    ),
    "TG-F10..F14, T2": Item(
        "benchmarks.studies.int8:measure_dense benchmarks.studies.int8:measure_edges",
        "Fig. 12",
        "benchmarks/test_int8.py::test_products_and_trainings_are_measured",
        (("15", "TANGO, Figure 11a"),),
    ),
    "TG-F16": Item(
        "kernels.dense.code_rows:PairedRows compute.codes:rows_to_sum benchmarks.studies.int8:measure_edges",
        "(Chen et al., SC 2023, Fig. 16)",
        "kernels/test_code_rows.py::test_sums_have_the_bits_of_unpacked_codes "
        "compute/test_code_sums.py::test_sums_and_gradients_do_not_depend_on_packing "
        "benchmarks/test_int8.py::test_products_and_trainings_are_measured",
        (("15", "4 bits"),),
        "dense products and products along edges of four bits, which take a byte a code",
    ),
    "TG-DGL": Item(
        "nn.dgl:tango nn.dgl:Tango",
        "(TANGO, Chen et al., SC 2023",
        "nn/test_dgl.py::test_layers_agree_with_dgl_in_float64 "
        "nn/test_dgl.py::test_layers_of_several_types_agree_with_dgl_in_float64 "
        "nn/test_dgl.py::test_tango_block_restores_all_patches_also_after_exceptions "
        "nn/test_dgl.py::test_links_are_predicted_by_dot_products",
        (("16", "The block supports `GraphConv`"),),
    ),
    "CD-F5": Item(
        "benchmarks.studies.broadcasts:broadcasts systems.recipes.cagnet:cagnet systems.recipes.sancus:sancus "
        "systems.recipes.cdfgnn:cdfgnn",
        "CDFGNN Fig. 5",
        "benchmarks/test_broadcasts.py::test_rows_are_trained_once_and_then_read_from_the_stored_cells",
        (),
        "gnnqlab bench broadcasts prints it, no notebook shows it",
    ),
    "CD-F6": Item(
        "benchmarks.studies.cdfgnn:cdfgnn benchmarks.studies.cdfgnn:table",
        "seconds of an epoch (Fig. 6)",
        "benchmarks/test_cdfgnn.py::test_times_are_relative_to_baseline_and_scores_to_full_batch "
        "benchmarks/test_cdfgnn.py::test_lines_differ_in_cache_and_codec_alone",
        (),
        "gnnqlab bench cdfgnn prints it, no notebook shows it",
    ),
    "CD-F8": Item(
        "benchmarks.studies.cdfgnn:cdfgnn train.dgl_mini_batch:MiniBatch",
        "accuracy (Fig. 8)",
        "benchmarks/test_cdfgnn.py::test_all_lines_are_trained",
        (),
        "gnnqlab bench cdfgnn prints it, no notebook shows it",
    ),
    "CAGNET": Item(
        "systems.recipes.cagnet:cagnet exchange.broadcast.exchange:Broadcast exchange.broadcast.sums:BlockSum "
        "exchange.broadcast.sums:RowSum",
        "(CAGNET; SANCUS with a cache of blocks)",
        "exchange/test_broadcast.py::test_workers_equal_one_process "
        "exchange/test_broadcast.py::test_replicated_blocks_equal_one_process "
        "exchange/test_broadcast.py::test_sums_and_gradients_are_those_of_the_dense_matrices "
        "exchange/test_broadcast.py::test_a_worker_without_train_nodes_takes_part "
        "exchange/test_broadcast.py::test_a_block_is_written_once_and_lands_in_two_buffers_that_take_turns "
        "tune/test_predicted_volume.py::test_the_formula_of_cagnet_is_written_down "
        "tune/test_predicted_volume.py::test_replicated_blocks_send_the_bytes_of_the_formula",
        (("17", "| CAGNET, SANCUS (broadcast) |"),),
    ),
    "MixGCN": Item(
        "systems.recipes.feature_parallel:feature_parallel exchange.columns.exchange:Columns "
        "exchange.columns.redistribution:Redistribution partition.column_shard:WholeGraph "
        "benchmarks.studies.memory:rows_by_workers",
        "(MixGCN, arXiv 2501.01951; NeutronTP, arXiv 2412.20379)",
        "exchange/test_columns.py::test_workers_equal_one_process "
        "exchange/test_columns.py::test_workers_without_columns_take_part "
        "exchange/test_columns.py::test_sums_and_gradients_are_those_of_float64_matrices "
        "exchange/test_columns.py::test_bytes_are_those_of_the_formula "
        "tune/test_bytes.py::test_predicted_bytes_are_sent_bytes_of_columns "
        "benchmarks/test_memory.py::test_bytes_of_a_worker_are_those_of_the_formula",
        (("17", "| Feature-parallel (columns) |"), ("17", "*Feature parallelism* (MixGCN")),
        "the mixture of accelerators of MixGCN, and NeutronTP's chunks of a graph that exceeds a device's memory",
    ),
    "SANCUS": Item(
        "systems.recipes.sancus:sancus systems.recipes.sancus:sancus_q message.caches.stale_blocks:StaleBlocks "
        "message.channels.blocks:SkippedBlock",
        "as SANCUS's description has it",
        "exchange/test_broadcast.py::test_workers_equal_one_process "
        "exchange/test_broadcast.py::test_others_use_the_block_that_was_last_sent_and_its_owner_its_own "
        "exchange/test_broadcast.py::test_all_hold_the_decoded_block_and_the_owner_too "
        "exchange/test_broadcast.py::test_bytes_are_those_of_the_blocks_that_were_not_skipped_on_all_workers_alike "
        "exchange/test_broadcast.py::test_raw_rows_may_travel_once "
        "exchange/test_broadcast.py::test_held_blocks_survive_a_checkpoint "
        "tune/test_bytes.py::test_predicted_bytes_are_sent_bytes_of_blocks",
        (("17", "SANCUS skips up to"),),
    ),
    "SAR": Item(
        "systems.recipes.sar:sar exchange.schedules.sequential:Sequential "
        "exchange.halo.attention_in_turn:AttendInTurn exchange.halo.peer_schedule:PeerSchedule "
        "benchmarks.studies.memory:memory",
        "(SAR, Mostafa, MLSys 2022, its case 2)",
        "exchange/test_sequential.py::test_workers_and_depths_obey "
        "exchange/test_sequential.py::test_every_model_obeys_one_worker_at_a_time "
        "exchange/test_sequential.py::test_halo_rows_of_depth_plus_one_workers_are_in_memory_at_once "
        "exchange/test_sequential.py::test_attention_holds_rows_or_their_gradients_not_both "
        "exchange/test_sequential.py::test_messages_are_those_of_all_at_once "
        "tune/test_bytes.py::test_bytes_of_second_fetches_are_predicted",
        (("17", "| SAR (halo, one worker at a time) |"),),
    ),
    "GRAPPA": Item(
        "systems.recipes.gradients_only:gradients_only partition.random_clusters:RandomClusters "
        "train.moving_partition:MovingPartition",
        "after Grappa (arXiv 2602.01872)",
        "exchange/test_gradients_only.py::test_training_is_that_of_the_weighted_visible_edges "
        "exchange/test_gradients_only.py::test_sums_are_unbiased_over_all_partitions "
        "exchange/test_gradients_only.py::test_without_a_correction_it_is_bns_gcn_without_rows_bit_for_bit "
        "train/test_moving_partition.py::test_every_epoch_is_trained_on_the_cut_of_its_period",
        (),
        "its correction of summed gradients, of which we know the abstract only; no notebook shows it",
    ),
    "AQ-T7": Item(
        "tune.at_scale:at_scale tune.cut_counts:CutCounts",
        "AdaQP Table 7",
        "tune/test_at_scale.py::test_at_its_own_place_it_is_the_forecast "
        "tune/test_at_scale.py::test_bytes_are_those_of_the_formula_and_of_training",
        (("18", "AdaQP, Table 7"),),
    ),
    "SY-TVIII, TXIII, F14": Item(
        "tune.at_scale:at_scale tune.cut_counts:count_by_workers",
        "SYLVIE Tables VIII and XIII",
        "tune/test_at_scale.py::test_every_part_by_hand tune/test_at_scale.py::test_links_hosts_cores_and_speed "
        "tune/test_cut_counts.py::test_counts_are_those_of_the_shards",
        (("18", "SYLVIE, Table VIII"), ("18", "SYLVIE, Table XIII")),
        missing="Figure 14 is of servers with GPUs that nobody here has",
    ),
    "EDEN": Item(
        "message.codecs.rotated:Rotated kernels.codec.rotate:encode_rotated kernels.reference.rotate:rotate "
        "message.codecs.lloyd_max:relative_error",
        "EDEN, Vargaftik et al., ICML 2022",
        "message/test_rotated.py::test_levels_are_those_of_lloyd_and_max "
        "message/test_rotated.py::test_dense_rows_are_unbiased "
        "bits/test_variance.py::test_rotated_codec_variance_follows_the_row_norm_for_all_kinds_of_rows "
        "kernels/test_rotate.py::test_bytes_are_the_same_everywhere",
        (("25", "EDEN"),),
    ),
}

BEYOND = ("SY-TI", "SY-TIX", "SY-F2", "SY-F3", "SY-F6", "EDEN", "CAGNET", "MixGCN", "SANCUS", "SAR", "GRAPPA")
"""Items of the papers that the catalogue may lack; baselines have no number there."""

NOT_YET: dict[str, tuple[str, ...]] = {}
"""Reason -> rows of which nothing is built."""


@each("name", ITEMS)
def test_every_home_is_there_and_cites_its_item(name: str) -> None:
    texts = []
    for home in ITEMS[name].homes.split():
        module, _, path = home.partition(":")
        found: object = importlib.import_module(module if module.startswith("benchmarks.") else f"gnnqlab.{module}")
        file = Path(str(inspect.getsourcefile(found)))  # type: ignore[arg-type]
        for part in path.split("."):
            found = getattr(found, part)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__doc__, f"{home} has no docstring"
            file = Path(str(inspect.getsourcefile(inspect.unwrap(found))))
        texts.append(_in_one_line(file.read_text(encoding="utf-8")))
    assert any(ITEMS[name].cites in text for text in texts), f"no module of {name} contains {ITEMS[name].cites!r}"


@each("name", ITEMS)
def test_every_test_is_there(name: str) -> None:
    for test in ITEMS[name].tests.split():
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{name}: {test} is gone"


@each("name", ITEMS)
def test_every_notebook_shows_its_item(name: str) -> None:
    item = ITEMS[name]
    assert item.shown or item.missing, f"{name} is in no notebook, and no reason is given"
    for number, words in item.shown:
        assert words in _notebook(number), f"{name}: notebook {number} no longer contains {words!r}"


def test_rows_are_those_of_the_catalogue() -> None:
    known = [*ITEMS, *(name for names in NOT_YET.values() for name in names)]
    assert len(known) == len(set(known))
    if not CATALOGUE.is_file():
        pytest.skip("the catalogue of the papers is not beside this repository (../shared/papers)")
    rows = re.findall(r"^\| ((?:AQ|SY|CD|TG)-[^|]*?) \|", CATALOGUE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(known) == sorted({*rows, *BEYOND})


@cache
def _notebook(number: str) -> str:
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    claims = [
        "".join(output["data"]["text/plain"])
        for cell in cells
        if "paper_claims(" in "".join(cell["source"])
        for output in cell["outputs"]
    ]
    return _in_one_line("\n".join(["".join(cell["source"]) for cell in cells] + claims))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
