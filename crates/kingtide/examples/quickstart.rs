//! The example of README.md: one transaction, then everything in key order.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use kingtide::{Db, FamilyOptions, IterOptions, Options};

fn main() -> kingtide::Result<()> {
    let db = Db::open("target/quickstart", Options::default())?;
    let tides = db.open_family("tides", FamilyOptions::default())?;

    let mut transaction = db.begin()?;
    transaction.put(&tides, b"ebb", b"low water")?;
    transaction.put(&tides, b"flood", b"high water")?;
    transaction.commit()?; // on the device when it returns: `SyncMode::Full` is the default

    for entry in db.iter(&tides, IterOptions::default())?.entries() {
        let (key, value) = entry?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close()
}
