//! Rollouts as transcripts: each file in `transcripts/` lists commands and what the core plans
//! after them. `UPDATE_EXPECT=1 cargo test -p everynode-core transcripts::` rewrites the files.

use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn check(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let expected = std::fs::read_to_string(&path).expect("a readable transcript");
    expect_test::expect_file![&path].assert_eq(&crate::transcript::run(&expected));
}

macro_rules! transcripts {
    ($($test:ident: $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            check($name);
        })*
    };
}

transcripts! {
    added_default: "added-default",
    beside: "beside",
    beside_not_guarded: "beside-not-guarded",
    beside_config: "beside-config",
    beside_failure: "beside-failure",
    beside_roll_back: "beside-roll-back",
    beside_first_template: "beside-first-template",
    budget: "budget",
    burst: "burst",
    changed_pods: "changed-pods",
    collision: "collision",
    lost_pods: "lost-pods",
    create: "create",
    evict: "evict",
    failed_pods: "failed-pods",
    former_pods: "former-pods",
    former_pods_end: "former-pods-end",
    guarded: "guarded",
    guarded_bake_joined: "guarded-bake-joined",
    guarded_checks: "guarded-checks",
    guarded_closed: "guarded-closed",
    guarded_down_nodes: "guarded-down-nodes",
    guarded_failure_unwritten: "guarded-failure-unwritten",
    guarded_finally: "guarded-finally",
    guarded_images: "guarded-images",
    guarded_images_agree: "guarded-images-agree",
    guarded_images_ahead: "guarded-images-ahead",
    guarded_images_failed: "guarded-images-failed",
    guarded_images_motion: "guarded-images-motion",
    guarded_images_others: "guarded-images-others",
    guarded_in_place: "guarded-in-place",
    guarded_in_place_back: "guarded-in-place-back",
    guarded_in_place_crash: "guarded-in-place-crash",
    guarded_in_place_back_infeasible: "guarded-in-place-back-infeasible",
    guarded_in_place_back_restart: "guarded-in-place-back-restart",
    guarded_in_place_pace: "guarded-in-place-pace",
    guarded_in_place_unknown: "guarded-in-place-unknown",
    guarded_in_place_undo: "guarded-in-place-undo",
    guarded_in_place_retry: "guarded-in-place-retry",
    guarded_in_place_late_room: "guarded-in-place-late-room",
    guarded_in_place_timers: "guarded-in-place-timers",
    guarded_in_place_policy_removed: "guarded-in-place-policy-removed",
    guarded_in_place_adopted: "guarded-in-place-adopted",
    guarded_in_place_revision_gone: "guarded-in-place-revision-gone",
    guarded_in_place_only: "guarded-in-place-only",
    guarded_in_place_oldest: "guarded-in-place-oldest",
    guarded_in_place_took_over: "guarded-in-place-took-over",
    guarded_in_place_no_blame: "guarded-in-place-no-blame",
    guarded_in_place_tainted: "guarded-in-place-tainted",
    guarded_large_wave: "guarded-large-wave",
    guarded_late: "guarded-late",
    guarded_leaving: "guarded-leaving",
    beside_removals: "beside-removals",
    beside_removals_open: "beside-removals-open",
    guarded_too_many_waves: "guarded-too-many-waves",
    guarded_each: "guarded-each",
    guarded_groups: "guarded-groups",
    guarded_groups_removed: "guarded-groups-removed",
    guarded_held: "guarded-held",
    guarded_failure: "guarded-failure",
    guarded_pending: "guarded-pending",
    guarded_policy_back: "guarded-policy-back",
    guarded_policy_removed: "guarded-policy-removed",
    guarded_adopted_in_motion: "guarded-adopted-in-motion",
    guarded_adoption: "guarded-adoption",
    guarded_record: "guarded-record",
    guarded_record_joined: "guarded-record-joined",
    guarded_orders: "guarded-orders",
    guarded_orders_after_failure: "guarded-orders-after-failure",
    guarded_clock: "guarded-clock",
    guarded_config: "guarded-config",
    guarded_course: "guarded-course",
    guarded_stuck: "guarded-stuck",
    guarded_taken: "guarded-taken",
    guarded_jobs: "guarded-jobs",
    guarded_joined_broken: "guarded-joined-broken",
    guarded_pace: "guarded-pace",
    guarded_pace_restart: "guarded-pace-restart",
    guarded_pace_stuck: "guarded-pace-stuck",
    guarded_pace_surge: "guarded-pace-surge",
    guarded_pace_young: "guarded-pace-young",
    guarded_windows: "guarded-windows",
    guarded_windows_complete: "guarded-windows-complete",
    guarded_windows_stuck: "guarded-windows-stuck",
    guarded_windows_surge: "guarded-windows-surge",
    guarded_windows_tainted: "guarded-windows-tainted",
    guarded_no_room: "guarded-no-room",
    guarded_not_ready: "guarded-not-ready",
    guarded_not_ready_restart: "guarded-not-ready-restart",
    guarded_outage: "guarded-outage",
    guarded_outage_waits: "guarded-outage-waits",
    guarded_outage_surge: "guarded-outage-surge",
    guarded_orphans: "guarded-orphans",
    guarded_terminating_before: "guarded-terminating-before",
    guarded_back_left: "guarded-back-left",
    guarded_replaced_machines: "guarded-replaced-machines",
    guarded_steps_edited: "guarded-steps-edited",
    guarded_absent_elsewhere: "guarded-absent-elsewhere",
    guarded_left_over: "guarded-left-over",
    guarded_back_down: "guarded-back-down",
    guarded_agree: "guarded-agree",
    guarded_agree_hands: "guarded-agree-hands",
    guarded_agree_motion: "guarded-agree-motion",
    guarded_config_undo: "guarded-config-undo",
    guarded_back_on_delete: "guarded-back-on-delete",
    guarded_back: "guarded-back",
    guarded_back_unavailable: "guarded-back-unavailable",
    guarded_back_none_desired: "guarded-back-none-desired",
    guarded_deadline: "guarded-deadline",
    guarded_lost: "guarded-lost",
    guarded_motion: "guarded-motion",
    guarded_removals: "guarded-removals",
    guarded_removals_surge: "guarded-removals-surge",
    guarded_restart: "guarded-restart",
    guarded_rollback: "guarded-rollback",
    guarded_unlabelled: "guarded-unlabelled",
    guarded_undone_before: "guarded-undone-before",
    guarded_undone_unavailable: "guarded-undone-unavailable",
    guarded_unknown_surge: "guarded-unknown-surge",
    handover: "handover",
    highest_revision_number: "highest-revision-number",
    duplicates: "duplicates",
    history: "history",
    malformed_template: "malformed-template",
    min_ready: "min-ready",
    namespace_node_selector: "namespace-node-selector",
    node_selector: "node-selector",
    nothing_desired: "nothing-desired",
    not_yet_available: "not-yet-available",
    ownership: "ownership",
    refusals: "refusals",
    paused: "paused",
    paused_surge: "paused-surge",
    restart: "restart",
    rollback: "rollback",
    rolling_update: "rolling-update",
    schedule_by_controller: "schedule-by-controller",
    selecting_all: "selecting-all",
    starvation: "starvation",
    stuck_node: "stuck-node",
    surge: "surge",
    surge_excess: "surge-excess",
    surge_tainted: "surge-tainted",
    tainted: "tainted",
    template_generation: "template-generation",
    terminating_pods: "terminating-pods",
    unknown_creations: "unknown-creations",
    unknown_deletion_available: "unknown-deletion-available",
    unknown_deletions: "unknown-deletions",
    unknown_deletions_budget: "unknown-deletions-budget",
    unknown_deletions_strategy: "unknown-deletions-strategy",
    unknown_surge: "unknown-surge",
    unreachable: "unreachable",
    unreachable_wait: "unreachable-wait",
    waiting: "waiting",
}

#[test]
fn every_transcript_has_a_test() {
    let files = std::fs::read_dir(folder()).expect("the folder of transcripts");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a readable folder").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| (*name).to_owned()).collect());
}
