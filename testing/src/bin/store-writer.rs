//! Writes to an embedded store until it is killed: the victim of the store's crash test.
//!
//! `store-writer FOLDER` sets the keys `one` and `other` to the same number in each transaction, every third time presence as well,
//! and prints the number and the revision after each acknowledgement.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use moonbridge_controlplane::store::embedded::Embedded;
use moonbridge_controlplane::store::{Change, Committed, LeaseId, Store as _, Txn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: store-writer FOLDER")?;
    let store = Embedded::open(Path::new(&folder))?;
    let lease = store.lease_grant(Duration::from_secs(60)).await?;
    let mut number = match store.get("one").await? {
        Some(entry) => String::from_utf8(entry.value)?.parse()?,
        None => 0_u64,
    };
    loop {
        if number.is_multiple_of(3) {
            write(&store, number, &[("presence", lease)]).await?;
        }
        number += 1;
        write(&store, number, &[("one", 0), ("other", 0)]).await?;
    }
}

async fn write(store: &Embedded, number: u64, keys: &[(&str, LeaseId)]) -> anyhow::Result<()> {
    let put = |&(key, lease): &(&str, LeaseId)| Change::Put { key: key.into(), value: number.to_string().into_bytes(), lease };
    let txn = Txn { compares: Vec::new(), changes: keys.iter().map(put).collect() };
    let Committed::Yes(revision) = store.txn(txn).await? else { bail!("a conflict without a compare") };
    writeln!(std::io::stdout(), "{number} {revision}")?;
    Ok(())
}
