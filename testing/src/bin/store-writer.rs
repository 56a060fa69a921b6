//! Writes to an embedded store until it is killed: the victim of the store's crash test.
//!
//! `store-writer FOLDER` sets the keys `one` and `other` to the same number in each transaction, every third time presence as well,
//! and prints the number and the revision after each acknowledgement. `store-writer FOLDER fill` adds keys of 100 kB instead, until
//! the store refuses one.

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
    if std::env::args_os().nth(2).is_some_and(|mode| mode == "fill") {
        return fill(&store).await;
    }
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

async fn fill(store: &Embedded) -> anyhow::Result<()> {
    let put = |number: u64| Change::Put { key: format!("fill/{number}"), value: vec![b'x'; 100_000], lease: 0 };
    let txn = |number: u64| store.txn(Txn { compares: Vec::new(), changes: vec![put(number)] });
    for number in 0_u64.. {
        let Err(error) = txn(number).await else {
            writeln!(std::io::stdout(), "{number}")?;
            continue;
        };
        // It stays so, and what was stored before can still be read.
        anyhow::ensure!(txn(number + 1).await.is_err(), "it stores again");
        anyhow::ensure!(store.get(&format!("fill/{number}")).await?.is_none(), "what it refused is there");
        anyhow::ensure!(store.get("fill/0").await?.is_some(), "what it stored is gone");
        return Err(error.into());
    }
    Ok(())
}
