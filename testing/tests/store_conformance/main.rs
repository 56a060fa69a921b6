//! One suite for both stores (`suite`, `watches`, `leases`, `model`), run against the embedded store and a real etcd; and what only one
//! of them promises (`embedded`, `etcd`).

#![allow(clippy::unwrap_used, reason = "all of this crate is tests; clippy looks at functions with #[test] only")]

mod embedded;
mod etcd;
mod leases;
mod model;
mod suite;
mod support;
mod watches;

/// Every test of the suite, once for each store.
macro_rules! conformance {
    ($($part:ident: $($test:ident),+ $(,)?;)+) => {
        mod on_embedded {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $test() {
                    crate::$part::$test(&crate::embedded::Fixture::new().await).await;
                }
            )+)+
        }
        mod on_etcd {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $test() {
                    crate::$part::$test(&crate::etcd::Fixture::new().await).await;
                }
            )+)+
        }
    };
}

conformance! {
    suite:
        puts_are_got, a_listing_is_in_order_and_ends_at_its_prefix, pages_are_of_one_revision_while_others_write, a_page_has_an_upper_limit,
        other_revisions_are_refused, every_compare_holds_and_fails, a_transaction_is_one_revision, a_transaction_without_effect_is_committed,
        what_is_too_much_is_refused, the_most_is_accepted, no_increment_is_lost, the_id_stays;
    watches:
        a_watch_tells_the_past_in_order, a_watch_waits_for_the_future, a_watch_ends_at_its_prefix, a_watch_of_all_keys,
        a_watch_under_writers_has_no_gap_and_no_double, a_compacted_revision_is_said, a_dropped_watch_disturbs_nobody;
    leases:
        a_lease_ends, a_revoked_lease_takes_its_keys, a_kept_lease_lives, a_key_leaves_its_lease, an_unknown_lease_is_refused, odd_leases_are_refused;
    model:
        random_transactions_match_a_model;
}
