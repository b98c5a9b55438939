//! What becomes of a file when its last holder lets go.

use super::*;

#[derive(Default)]
struct Told(Mutex<Vec<(&'static str, u64)>>);

impl SpillOwner for Told {
    fn discard(&self, file: FileId) {
        self.0.lock().push(("discard", file.0));
    }

    fn release(&self, file: FileId) {
        self.0.lock().push(("release", file.0));
    }

    fn read(&self, _: &ValuePointer, _: &[u8]) -> StorageResult<Vec<u8>> {
        Ok(Vec::new())
    }
}

fn spilled(file: u64, owner: &Arc<Told>) -> Arc<Spilled> {
    let file = FileId(file);
    let meta = ValueFileMeta {
        file,
        file_bytes: 1,
        footer_checksum: 2,
        records: 1,
    };
    let pointer = ValuePointer {
        file,
        offset: 32,
        record_bytes: 3,
        value_bytes: 4,
    };
    let owner: Arc<dyn SpillOwner> = owner.clone();
    Arc::new(Spilled::written((meta, pointer), owner))
}

#[test]
fn the_last_holder_gives_the_file_back_unless_the_log_may_name_it() {
    let owner = Arc::new(Told::default());
    let written = spilled(1, &owner);
    let second = Arc::clone(&written);
    drop(written);
    assert!(owner.0.lock().is_empty(), "somebody holds it");
    drop(second);

    let listed = spilled(2, &owner);
    listed.set_listed();
    drop(listed);

    let pinned = spilled(3, &owner);
    pinned.set_listed();
    pinned.pin();
    drop(pinned);

    let unpinned = spilled(4, &owner);
    unpinned.set_listed();
    unpinned.pin();
    unpinned.unpin();
    drop(unpinned);
    let told = [("discard", 1), ("release", 2), ("release", 4)];
    assert_eq!(*owner.0.lock(), told);
}

#[test]
fn a_long_list_lets_go_of_everything() {
    let owner = Arc::new(Told::default());
    let list = SpilledList::default();
    for file in 0..200_000 {
        list.add(SpilledBatch::new(vec![spilled(file, &owner)]).expect("one"));
    }
    assert_eq!(list.all().len(), 200_000);
    drop(list);
    assert_eq!(owner.0.lock().len(), 200_000);
    assert!(SpilledBatch::new(Vec::new()).is_none());
}
