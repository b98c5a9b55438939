//! Wrong arguments: every function that takes a handle is given one that is none; sizes that cannot be; null places.
//!
//! Each call must be refused, and change nothing: the model is not told of any of them.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    bindings::{FamilyConfig, Handle, OpenOptions, TxnOptions, c},
    session::{Kind, Session, code},
};

/// Sizes beyond every limit.
const HUGE: [usize; 5] = [
    usize::MAX,
    usize::MAX / 2,
    1 << 40,
    (1 << 30) + 1,
    isize::MAX as usize,
];

/// A function that is called with a handle that is none.
type Refusal = fn(Handle) -> c_int;

const KEY: *const u8 = c"key".as_ptr().cast();

/// Answers of functions that answer no code.
fn none(refused: bool) -> c_int {
    if refused {
        code::INVALID_ARGS
    } else {
        code::SUCCESS
    }
}

const OF_DATABASES: &[(&str, Refusal)] = &[
    ("close", |db| c!(tidesdb_close(db))),
    ("register_comparator", |db| {
        c!(tidesdb_register_comparator(
            db,
            c"x".as_ptr(),
            None,
            ptr::null(),
            ptr::null_mut()
        ))
    }),
    ("get_comparator", |db| {
        c!(tidesdb_get_comparator(
            db,
            c"memcmp".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut()
        ))
    }),
    ("create", |db| {
        let config = c!(tidesdb_default_column_family_config());
        c!(tidesdb_create_column_family(
            db,
            c"x".as_ptr(),
            &raw const config
        ))
    }),
    ("drop", |db| {
        c!(tidesdb_drop_column_family(db, c"f".as_ptr()))
    }),
    ("rename", |db| {
        c!(tidesdb_rename_column_family(
            db,
            c"f".as_ptr(),
            c"y".as_ptr()
        ))
    }),
    ("clone", |db| {
        c!(tidesdb_clone_column_family(
            db,
            c"f".as_ptr(),
            c"y".as_ptr()
        ))
    }),
    ("get_column_family", |db| {
        none(c!(tidesdb_get_column_family(db, c"f".as_ptr())).is_null())
    }),
    ("list", |db| {
        let (mut names, mut count) = (ptr::null_mut(), 0);
        c!(tidesdb_list_column_families(
            db,
            &raw mut names,
            &raw mut count
        ))
    }),
    ("begin", |db| {
        let mut txn = ptr::null_mut();
        c!(tidesdb_txn_begin(db, &raw mut txn))
    }),
    ("kt_begin", |db| {
        let mut txn = ptr::null_mut();
        c!(kt_txn_begin(db, ptr::null(), &raw mut txn))
    }),
    ("backup", |db| {
        c!(tidesdb_backup(db, c"/nowhere/at/all".as_ptr()))
    }),
    ("checkpoint", |db| {
        c!(tidesdb_checkpoint(db, c"/nowhere/at/all".as_ptr()))
    }),
    ("purge", |db| c!(tidesdb_purge(db))),
    ("cancel", |db| c!(tidesdb_cancel_background_work(db))),
    ("promote", |db| c!(tidesdb_promote_to_primary(db))),
    ("db_stats", |db| {
        let mut stats = super::bindings::DbStats::ZERO;
        c!(tidesdb_get_db_stats(db, &raw mut stats))
    }),
    ("cache_stats", |db| {
        let mut stats = super::bindings::CacheStats::ZERO;
        c!(tidesdb_get_cache_stats(db, &raw mut stats))
    }),
    ("snapshot", |db| {
        let mut snapshot = ptr::null_mut();
        c!(kt_snapshot_create(db, ptr::null(), &raw mut snapshot))
    }),
    ("find_snapshot", |db| {
        let mut snapshot = ptr::null_mut();
        c!(kt_snapshot_find(db, c"old".as_ptr(), &raw mut snapshot))
    }),
    ("commit_prepared", |db| c!(kt_commit_prepared(db, KEY, 3))),
    ("rollback_prepared", |db| {
        c!(kt_rollback_prepared(db, KEY, 3))
    }),
    ("recover_prepared", |db| {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        c!(kt_recover_prepared(db, &raw mut list, &raw mut count))
    }),
    ("wait_idle", |db| c!(kt_wait_idle(db))),
    ("verify", |db| {
        c!(kt_verify(db, None, None, ptr::null_mut(), ptr::null_mut()))
    }),
];

const OF_FAMILIES: &[(&str, Refusal)] = &[
    ("set_commit_hook", |cf| {
        c!(tidesdb_cf_set_commit_hook(cf, None, ptr::null_mut()))
    }),
    ("compact", |cf| c!(tidesdb_compact(cf))),
    ("compact_range", |cf| {
        c!(tidesdb_compact_range(cf, KEY, 1, KEY, 3))
    }),
    ("flush", |cf| c!(tidesdb_flush_memtable(cf))),
    ("is_flushing", |cf| none(c!(tidesdb_is_flushing(cf)) == 0)),
    ("is_compacting", |cf| {
        none(c!(tidesdb_is_compacting(cf)) == 0)
    }),
    ("purge_cf", |cf| c!(tidesdb_purge_cf(cf))),
    ("sync_wal", |cf| c!(tidesdb_sync_wal(cf))),
    ("update", |cf| {
        let config = c!(tidesdb_default_column_family_config());
        c!(tidesdb_cf_update_runtime_config(cf, &raw const config, 1))
    }),
    ("stats", |cf| {
        let mut stats: *mut c_void = ptr::null_mut();
        let answer = c!(tidesdb_get_stats(cf, &raw mut stats));
        assert!(stats.is_null());
        answer
    }),
    ("cardinality", |cf| {
        let mut estimate = 0;
        c!(tidesdb_cf_estimate_cardinality(cf, &raw mut estimate))
    }),
    ("range_cost", |cf| {
        let mut cost = 0.0;
        c!(tidesdb_range_cost(cf, KEY, 1, KEY, 2, &raw mut cost))
    }),
];

const OF_TRANSACTIONS: &[(&str, Refusal)] = &[
    ("commit", |txn| c!(tidesdb_txn_commit(txn))),
    ("rollback", |txn| c!(tidesdb_txn_rollback(txn))),
    ("reset", |txn| c!(tidesdb_txn_reset(txn, 1))),
    ("free", |txn| {
        c!(tidesdb_txn_free(txn));
        code::INVALID_ARGS
    }),
    ("savepoint", |txn| {
        c!(tidesdb_txn_savepoint(txn, c"a".as_ptr()))
    }),
    ("rollback_to", |txn| {
        c!(tidesdb_txn_rollback_to_savepoint(txn, c"a".as_ptr()))
    }),
    ("release", |txn| {
        c!(tidesdb_txn_release_savepoint(txn, c"a".as_ptr()))
    }),
    ("abort_handle", |txn| {
        let mut abort = ptr::null_mut();
        c!(kt_txn_abort_handle(txn, &raw mut abort))
    }),
    ("prepare", |txn| c!(kt_txn_prepare(txn, KEY, 3))),
];

/// A function that is called with a transaction and a family of which one is none.
type RefusalOfBoth = fn(Handle, Handle) -> c_int;

/// Functions of a transaction and a family; either may be the wrong one.
const OF_BOTH: &[(&str, RefusalOfBoth)] = &[
    ("put", |txn, cf| {
        c!(tidesdb_txn_put(txn, cf, KEY, 3, KEY, 3, 0))
    }),
    ("delete", |txn, cf| c!(tidesdb_txn_delete(txn, cf, KEY, 3))),
    ("single_delete", |txn, cf| {
        c!(tidesdb_txn_single_delete(txn, cf, KEY, 3))
    }),
    ("delete_range", |txn, cf| {
        c!(kt_txn_delete_range(txn, cf, KEY, 1, KEY, 3))
    }),
    ("delete_prefix", |txn, cf| {
        c!(kt_txn_delete_prefix(txn, cf, KEY, 3))
    }),
    ("contains", |txn, cf| {
        c!(tidesdb_txn_contains(txn, cf, KEY, 3))
    }),
    ("get", |txn, cf| {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        c!(tidesdb_txn_get(
            txn,
            cf,
            KEY,
            3,
            &raw mut value,
            &raw mut size
        ))
    }),
    ("get_notrack", |txn, cf| {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        c!(tidesdb_txn_get_notrack(
            txn,
            cf,
            KEY,
            3,
            &raw mut value,
            &raw mut size
        ))
    }),
    ("get_for_update", |txn, cf| {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        c!(kt_txn_get_for_update(
            txn,
            cf,
            KEY,
            3,
            &raw mut value,
            &raw mut size
        ))
    }),
    ("multi_get", |txn, cf| {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        c!(kt_txn_multi_get(
            txn,
            cf,
            1,
            &raw const KEY_PLACE.0,
            &raw const KEY_SIZE,
            &raw mut value,
            &raw mut size
        ))
    }),
    ("iter_new", |txn, cf| {
        let mut iter = ptr::null_mut();
        c!(tidesdb_iter_new(txn, cf, &raw mut iter))
    }),
    ("kt_iter_new", |txn, cf| {
        let mut iter = ptr::null_mut();
        c!(kt_iter_new(txn, cf, ptr::null(), &raw mut iter))
    }),
];

/// A pointer that threads may share, because nobody writes behind it.
struct Shared(*const u8);

// SAFETY: it points to a constant.
unsafe impl Sync for Shared {}

static KEY_PLACE: Shared = Shared(KEY);
static KEY_SIZE: usize = 3;

const OF_ITERATORS: &[(&str, Refusal)] = &[
    ("seek", |iter| c!(tidesdb_iter_seek(iter, KEY, 3))),
    ("seek_for_prev", |iter| {
        c!(tidesdb_iter_seek_for_prev(iter, KEY, 3))
    }),
    ("seek_to_first", |iter| c!(tidesdb_iter_seek_to_first(iter))),
    ("seek_to_last", |iter| c!(tidesdb_iter_seek_to_last(iter))),
    ("next", |iter| c!(tidesdb_iter_next(iter))),
    ("prev", |iter| c!(tidesdb_iter_prev(iter))),
    ("valid", |iter| none(c!(tidesdb_iter_valid(iter)) == 0)),
    ("key", |iter| {
        let (mut key, mut size) = (ptr::null_mut(), 0);
        c!(tidesdb_iter_key(iter, &raw mut key, &raw mut size))
    }),
    ("value", |iter| {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        c!(tidesdb_iter_value(iter, &raw mut value, &raw mut size))
    }),
    ("expires_at", |iter| {
        let mut ttl = 0;
        c!(kt_iter_expires_at(iter, &raw mut ttl))
    }),
    ("free", |iter| {
        c!(tidesdb_iter_free(iter));
        code::INVALID_ARGS
    }),
];

const OF_SNAPSHOTS: &[(&str, Refusal)] = &[
    ("sequence", |snapshot| {
        none(c!(kt_snapshot_sequence(snapshot)) == 0)
    }),
    ("free", |snapshot| {
        c!(kt_snapshot_free(snapshot));
        code::INVALID_ARGS
    }),
];

const OF_ABORTS: &[(&str, Refusal)] = &[
    ("abort", |abort| c!(kt_abort(abort))),
    ("free", |abort| {
        c!(kt_abort_free(abort));
        code::INVALID_ARGS
    }),
];

/// What refusals may answer.
const REFUSED: [c_int; 3] = [code::INVALID_ARGS, code::NOT_FOUND, code::INVALID_DB];

impl Session<'_> {
    /// One function with one handle that is none of its kind.
    pub fn misuse(&mut self) {
        let (which, function) = (self.input.below(9), self.input.byte());
        let pick = |functions: &[(&'static str, Refusal)]| {
            functions[usize::from(function) % functions.len()]
        };
        let (kind, (what, call)) = match which {
            0 | 1 => (Kind::Database, pick(OF_DATABASES)),
            2 => (Kind::Family, pick(OF_FAMILIES)),
            3 => (Kind::Transaction, pick(OF_TRANSACTIONS)),
            4 => (Kind::Iterator, pick(OF_ITERATORS)),
            5 => (Kind::Snapshot, pick(OF_SNAPSHOTS)),
            6 => (Kind::Abort, pick(OF_ABORTS)),
            7 => return self.misuse_both(function),
            _ => return self.null_places(),
        };
        let handle = self.wrong_handle(kind);
        let answer = call(handle);
        self.note(format!("{what} of {kind:?} {handle:?} = {answer}"));
        assert!(
            REFUSED.contains(&answer),
            "{what} with {handle:?} as {kind:?} answered {answer}"
        );
    }

    /// A number that is no handle of `kind`: null, odd, foreign, freed, or a live one of another kind.
    fn wrong_handle(&mut self, kind: Kind) -> Handle {
        let choice = self.input.byte();
        let live = |wanted: Kind| match wanted {
            Kind::Transaction => self
                .transactions
                .iter()
                .flatten()
                .map(|open| open.handle)
                .next(),
            Kind::Iterator => self
                .iterators
                .iter()
                .flatten()
                .map(|open| open.handle)
                .next(),
            Kind::Snapshot => self.snapshots.first().map(|open| open.handle),
            Kind::Abort => self.aborts.first().map(|(handle, _)| *handle),
            Kind::Database | Kind::Family => Some(self.database()),
        };
        let other = |kind: Kind| match kind {
            Kind::Database => Kind::Transaction,
            Kind::Family | Kind::Snapshot => Kind::Database,
            Kind::Transaction => Kind::Iterator,
            Kind::Iterator => Kind::Snapshot,
            Kind::Abort => Kind::Transaction,
        };
        let freed: Vec<Handle> = self
            .freed
            .iter()
            .filter(|(of, _)| *of == kind)
            .map(|(_, handle)| *handle)
            .collect();
        let number = match choice % 8 {
            0 => 0,
            1 => usize::from(choice),
            2 => ptr::from_ref(self).addr(),
            3 => usize::MAX - usize::from(choice),
            4 => live(other(kind)).map_or(8, |handle| handle.addr()),
            // A handle of the right kind that was never made: a far slot, a far generation.
            5 => freed.last().map_or(16, |handle| handle.addr() ^ (1 << 40)),
            _ => {
                let index = usize::from(choice >> 3) % freed.len().max(1);
                freed.get(index).map_or(0, |handle| handle.addr())
            }
        };
        ptr::without_provenance_mut(number)
    }

    fn misuse_both(&mut self, function: u8) {
        let (what, call) = OF_BOTH[usize::from(function) % OF_BOTH.len()];
        let Some((cf, _)) = self.family() else {
            return;
        };
        let slot = self.transaction_slot();
        let is_family_wrong = self.input.byte() & 1 == 1;
        let (wrong_txn, wrong_cf) = (
            self.wrong_handle(Kind::Transaction),
            self.wrong_handle(Kind::Family),
        );
        let answer = match &self.transactions[slot] {
            Some(open) if is_family_wrong => call(open.handle, wrong_cf),
            _ => call(wrong_txn, cf),
        };
        self.note(format!(
            "{what} with a wrong handle, the family: {is_family_wrong} = {answer}"
        ));
        assert!(
            REFUSED.contains(&answer),
            "{what} with a wrong handle answered {answer}"
        );
    }

    /// Null where there must be something.
    fn null_places(&mut self) {
        let db = self.database();
        let (null, nowhere): (*const u8, *mut c_void) = (ptr::null(), ptr::null_mut());
        let answers = [
            c!(tidesdb_open(null.cast(), nowhere.cast())),
            c!(kt_open(null.cast(), null.cast(), nowhere.cast())),
            c!(tidesdb_create_column_family(db, null.cast(), null.cast())),
            c!(tidesdb_create_column_family(db, c"x".as_ptr(), null.cast())),
            c!(tidesdb_drop_column_family(db, null.cast())),
            c!(tidesdb_rename_column_family(db, null.cast(), c"x".as_ptr())),
            c!(tidesdb_clone_column_family(db, c"f".as_ptr(), null.cast())),
            c!(tidesdb_list_column_families(
                db,
                nowhere.cast(),
                nowhere.cast()
            )),
            c!(tidesdb_txn_begin(db, nowhere.cast())),
            c!(kt_txn_begin(db, null.cast(), nowhere.cast())),
            c!(tidesdb_get_db_stats(db, nowhere.cast())),
            c!(tidesdb_get_cache_stats(db, nowhere.cast())),
            c!(tidesdb_backup(db, null.cast())),
            c!(tidesdb_checkpoint(db, null.cast())),
            c!(kt_snapshot_create(db, null.cast(), nowhere.cast())),
            c!(kt_snapshot_find(db, null.cast(), nowhere.cast())),
            c!(kt_commit_prepared(db, null.cast(), 3)),
            c!(kt_commit_prepared(db, KEY, 0)),
            c!(kt_recover_prepared(db, nowhere.cast(), nowhere.cast())),
            c!(tidesdb_register_comparator(
                db,
                c"x".as_ptr(),
                None,
                null.cast(),
                nowhere
            )),
            c!(tidesdb_cf_config_load_from_ini(
                null.cast(),
                null.cast(),
                nowhere.cast()
            )),
            c!(tidesdb_cf_config_save_to_ini(
                null.cast(),
                null.cast(),
                null.cast()
            )),
        ];
        self.note(format!("null places = {answers:?}"));
        assert!(
            answers.iter().all(|answer| *answer == code::INVALID_ARGS),
            "{answers:?}"
        );
    }

    /// Sizes that no key, value, struct or array has.
    pub fn impossible_sizes(&mut self) {
        let huge = HUGE[self.input.below(5)];
        let slot = self.transaction_slot();
        self.wrong_structs();
        let Some((cf, _)) = self.family() else {
            return;
        };
        let Some(open) = &self.transactions[slot] else {
            return;
        };
        let (txn, null) = (open.handle, ptr::null());
        let (mut value, mut size) = (ptr::null_mut(), 0);
        let (place, size_place) = (&raw mut value, &raw mut size);
        let answers = [
            c!(tidesdb_txn_put(txn, cf, KEY, huge, KEY, 3, 0)),
            c!(tidesdb_txn_put(txn, cf, KEY, 3, KEY, huge, 0)),
            c!(tidesdb_txn_put(txn, cf, null, 3, KEY, 3, 0)),
            c!(tidesdb_txn_put(txn, cf, KEY, 0, KEY, 3, 0)),
            c!(tidesdb_txn_put(txn, cf, KEY, 3, null, 3, 0)),
            c!(tidesdb_txn_get(txn, cf, KEY, huge, place, size_place)),
            c!(tidesdb_txn_get(
                txn,
                cf,
                KEY,
                3,
                ptr::null_mut(),
                size_place
            )),
            c!(tidesdb_txn_get(txn, cf, KEY, 3, place, ptr::null_mut())),
            c!(tidesdb_txn_delete(txn, cf, KEY, huge)),
            c!(tidesdb_txn_single_delete(txn, cf, null, 1)),
            c!(kt_txn_delete_range(txn, cf, KEY, huge, KEY, 3)),
            c!(kt_txn_delete_prefix(txn, cf, KEY, 0)),
            c!(kt_txn_multi_get(
                txn,
                cf,
                huge,
                null.cast(),
                null.cast(),
                ptr::null_mut(),
                ptr::null_mut()
            )),
            c!(kt_txn_prepare(txn, KEY, huge)),
            c!(kt_txn_prepare(txn, KEY, 0)),
            c!(tidesdb_compact_range(cf, KEY, huge, KEY, 3)),
            c!(tidesdb_txn_savepoint(txn, ptr::null())),
        ];
        self.note(format!("sizes of {huge} = {answers:?}"));
        let refusals = [code::INVALID_ARGS, code::TOO_LARGE];
        assert!(
            answers.iter().all(|answer| refusals.contains(answer)),
            "{answers:?}"
        );
    }

    /// Structs whose size is none, or that ask for what nobody knows.
    fn wrong_structs(&mut self) {
        let (db, mut txn) = (self.database(), ptr::null_mut());
        let mut answers = Vec::new();
        for size in [0, 1, 7, 4097, u64::MAX] {
            let mut options = TxnOptions::ZERO;
            options.set_word(0, size);
            answers.push(c!(kt_txn_begin(db, &raw const options, &raw mut txn)));
        }
        let mut longer = [0_u64; 8];
        (longer[0], longer[1], longer[7]) = (64, 1, 1);
        answers.push(c!(kt_txn_begin(db, longer.as_ptr().cast(), &raw mut txn)));
        let mut options = OpenOptions::ZERO;
        options.set_word(0, 56);
        options.set_word(16, u64::MAX);
        let path = self.path();
        let config = Self::config(&path);
        let mut other = ptr::null_mut();
        answers.push(c!(kt_open(
            &raw const config,
            &raw const options,
            &raw mut other
        )));
        let mut unknown = FamilyConfig::ZERO;
        // A text without its end.
        (200..264)
            .step_by(8)
            .for_each(|offset| unknown.set_word(offset, u64::MAX));
        answers.push(c!(tidesdb_create_column_family(
            db,
            c"x".as_ptr(),
            &raw const unknown
        )));
        self.note(format!("wrong structs = {answers:?}"));
        assert!(
            answers.iter().all(|answer| *answer == code::INVALID_ARGS),
            "{answers:?}"
        );
    }
}
