//! Families, upkeep, settings, statistics, opening and closing.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    fs, ptr, slice,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    bindings::{
        CacheStats, Compare, Config, DbStats, FamilyConfig, Handle, NAMES as FUNCTIONS,
        OpenOptions, c,
    },
    session::{Kind, NAMES, Session, bytes_at, code, free, name, small_family, text, text_at},
};

/// Names that are refused, or that only look odd.
const ODD_NAMES: [&[u8]; 8] = [
    b"",
    b"..",
    b"a/b",
    b"\xff\xfe",
    b".",
    b"a\\b",
    b"a\nb",
    &[b'x'; 200],
];

/// The operations of a commit, as C sees one.
#[repr(C)]
struct CommitOp {
    key: *const u8,
    key_size: usize,
    value: *const u8,
    value_size: usize,
    ttl: i64,
    is_delete: c_int,
}

static HOOKED_BYTES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn hook(
    operations: *const c_void,
    count: c_int,
    _: u64,
    ctx: *mut c_void,
) -> c_int {
    assert!(ctx.is_null(), "the context is what was given");
    let count = usize::try_from(count).expect("a count");
    // SAFETY: the library lends that many operations for the call.
    let operations = unsafe { slice::from_raw_parts(operations.cast::<CommitOp>(), count) };
    for operation in operations {
        assert!(operation.is_delete >= 0 && operation.is_delete <= 2 && operation.ttl >= -1);
        let value = if operation.value.is_null() {
            Vec::new()
        } else {
            bytes_at(operation.value, operation.value_size)
        };
        let read = bytes_at(operation.key, operation.key_size).len() + value.len();
        HOOKED_BYTES.fetch_add(read as u64, Ordering::Relaxed);
    }
    // What a hook answers is noted, and changes nothing.
    c_int::from(count % 2 == 1)
}

unsafe extern "C" fn event(event: *const c_void, _: *mut c_void) {
    // SAFETY: the library lends a `kt_event_t` for the call, of seven words and more; its text is the fourth.
    let words = unsafe { slice::from_raw_parts(event.cast::<*const c_char>(), 4) };
    let text = words[3];
    assert!(!text_at(text).is_empty());
}

unsafe extern "C" fn backwards(
    a: *const u8,
    a_size: usize,
    b: *const u8,
    b_size: usize,
    _: *mut c_void,
) -> c_int {
    c!(tidesdb_comparator_reverse_memcmp(
        a,
        a_size,
        b,
        b_size,
        ptr::null_mut()
    ))
}

unsafe extern "C" fn damage(_: *const c_char, _: *mut c_void) {
    panic!("a whole database is said to be damaged");
}

impl Session<'_> {
    /// Flushes, merges, syncs and the like: none changes what is read.
    pub fn maintain(&mut self) {
        let way = self.input.byte() % 13;
        let (start, end) = (self.input.key(), self.input.key());
        let Some((cf, _)) = self.family() else {
            return;
        };
        let answer = match way {
            0..=2 => c!(tidesdb_flush_memtable(cf)),
            3 => c!(tidesdb_compact(cf)),
            4 => {
                let end_place = if start.len() < 100 {
                    end.as_ptr()
                } else {
                    ptr::null()
                };
                c!(tidesdb_compact_range(
                    cf,
                    start.as_ptr(),
                    start.len(),
                    end_place,
                    end.len()
                ))
            }
            5 => c!(tidesdb_purge_cf(cf)),
            6 => c!(tidesdb_purge(self.db)),
            7 => c!(tidesdb_sync_wal(cf)),
            8 => {
                let is_busy = c!(tidesdb_is_flushing(cf)) | c!(tidesdb_is_compacting(cf));
                assert!((0..=1).contains(&is_busy));
                0
            }
            9 => c!(tidesdb_cancel_background_work(self.db)),
            10 => {
                let hook = (start.len() > 3).then_some(hook as _);
                c!(tidesdb_cf_set_commit_hook(cf, hook, ptr::null_mut()))
            }
            11 => c!(kt_wait_idle(self.db)),
            _ => {
                let mut damaged = 1;
                let answer = c!(kt_verify(
                    self.db,
                    None,
                    Some(damage),
                    ptr::null_mut(),
                    &raw mut damaged
                ));
                assert_eq!(damaged, 0, "damaged files");
                answer
            }
        };
        let may_be_odd = way == 4 && start > end;
        let allowed: &[c_int] = if (3..=6).contains(&way) && self.are_merges_cancelled {
            &[code::SUCCESS, code::IO, code::INVALID_ARGS]
        } else if may_be_odd {
            &[code::SUCCESS, code::INVALID_ARGS]
        } else {
            &[code::SUCCESS]
        };
        self.check(&format!("maintain in way {way}"), answer, allowed);
        self.are_merges_cancelled |= way == 9;
    }

    /// Creates, drops, renames and copies families.
    pub fn change_families(&mut self) {
        let way = self.input.byte() % 8;
        let (first, second) = (NAMES[self.input.below(4)], NAMES[self.input.below(4)]);
        let (c_first, c_second) = (name(first), name(second));
        let is_there = self.model.names.get(first).copied();
        let is_prepared = is_there.is_some_and(|number| self.model.is_prepared_for(number));
        let is_target_there = self.model.names.contains_key(second);
        let missing = if is_there.is_some() {
            code::SUCCESS
        } else {
            code::NOT_FOUND
        };
        match way {
            0..=2 => {
                let config = small_family(&mut self.input);
                let answer = c!(tidesdb_create_column_family(
                    self.db,
                    c_first.as_ptr(),
                    &raw const config
                ));
                let expected = if is_there.is_some() {
                    code::EXISTS
                } else {
                    code::SUCCESS
                };
                self.check(&format!("create {first}"), answer, &[expected]);
                if answer == 0 {
                    self.model.create(first);
                }
            }
            3 | 4 => {
                let cf = c!(tidesdb_get_column_family(self.db, c_first.as_ptr()));
                assert_eq!(cf.is_null(), is_there.is_none(), "the handle of {first}");
                let answer = if way == 3 {
                    c!(tidesdb_drop_column_family(self.db, c_first.as_ptr()))
                } else {
                    c!(tidesdb_delete_column_family(self.db, cf))
                };
                let expected: &[c_int] = match (is_there, is_prepared) {
                    (None, _) if way == 3 => &[code::NOT_FOUND],
                    (None, _) => &[code::NOT_FOUND, code::INVALID_ARGS],
                    (Some(_), true) => &[code::BUSY],
                    (Some(_), false) => &[code::SUCCESS],
                };
                self.check(&format!("drop {first}"), answer, expected);
                if answer == 0 {
                    self.model.drop_family(first);
                    self.freed.push((Kind::Family, cf));
                }
            }
            5 => {
                let answer = c!(tidesdb_rename_column_family(
                    self.db,
                    c_first.as_ptr(),
                    c_second.as_ptr()
                ));
                let mut allowed = vec![missing];
                if is_target_there {
                    allowed = vec![code::EXISTS, code::NOT_FOUND];
                    if first == second {
                        allowed.push(code::SUCCESS);
                    }
                }
                self.check(&format!("rename {first} to {second}"), answer, &allowed);
                if let (0, Some(number)) = (answer, self.model.names.remove(first)) {
                    self.model.names.insert(second.to_owned(), number);
                } else if let Some(number) = is_there {
                    self.model.names.insert(first.to_owned(), number);
                }
            }
            6 => {
                let answer = c!(tidesdb_clone_column_family(
                    self.db,
                    c_first.as_ptr(),
                    c_second.as_ptr()
                ));
                let allowed: &[c_int] = if is_target_there {
                    &[code::EXISTS, code::NOT_FOUND, code::INVALID_ARGS]
                } else {
                    &[missing]
                };
                self.check(&format!("clone {first} to {second}"), answer, allowed);
                if answer == 0 {
                    self.model.clone_family(first, second);
                }
            }
            _ => self.odd_names_and_settings(),
        }
    }

    /// Families of names that are refused, and of any settings at all.
    fn odd_names_and_settings(&mut self) {
        let odd = ODD_NAMES[self.input.below(8)];
        let odd = CString::new(odd).expect("no zero byte");
        let mut config = small_family(&mut self.input);
        let answer = c!(tidesdb_create_column_family(
            self.db,
            odd.as_ptr(),
            &raw const config
        ));
        self.check(
            &format!("create {odd:?}"),
            answer,
            &[0, code::INVALID_ARGS, code::TOO_LARGE],
        );
        if answer == 0 {
            let answer = c!(tidesdb_drop_column_family(self.db, odd.as_ptr()));
            self.check("drop it", answer, &[code::SUCCESS]);
        }
        self.wild_settings(&mut config);
        self.try_family(&config);
    }

    /// Changes some fields of the settings of a family to anything; never pointers.
    fn wild_settings(&mut self, config: &mut FamilyConfig) {
        const WORDS: [usize; 9] = [128, 136, 152, 168, 192, 552, 568, 576, 608];
        const INTS: [usize; 15] = [
            144, 148, 160, 164, 176, 180, 184, 188, 536, 540, 544, 560, 564, 584, 616,
        ];
        for _ in 0..self.input.below(6) {
            let (field, value) = (
                self.input.below(WORDS.len() + INTS.len()),
                self.input.number(),
            );
            match WORDS.get(field) {
                Some(offset) => config.set_word(*offset, value),
                None => config.set_int(
                    INTS[field - WORDS.len()],
                    (value >> 32) as u32 as c_int | value as u32 as c_int,
                ),
            }
        }
        if self.input.byte() & 7 == 0 {
            // A name that fills its array to the end, or another order.
            let letter = u64::from(self.input.byte()) * 0x0101_0101_0101_0101;
            for offset in (200..264).step_by(8) {
                config.set_word(offset, letter);
            }
        }
    }

    /// Makes a family of any settings, uses it a little, and drops it.
    fn try_family(&mut self, config: &FamilyConfig) {
        let answer = c!(tidesdb_create_column_family(
            self.db,
            c"wild".as_ptr(),
            ptr::from_ref(config)
        ));
        self.check(
            "create wild",
            answer,
            &[0, code::INVALID_ARGS, code::NOT_FOUND, code::TOO_LARGE],
        );
        if answer != 0 {
            return;
        }
        let cf = c!(tidesdb_get_column_family(self.db, c"wild".as_ptr()));
        let mut txn = ptr::null_mut();
        let answer = c!(tidesdb_txn_begin(self.db, &raw mut txn));
        self.check("begin", answer, &[code::SUCCESS]);
        let answer = c!(tidesdb_txn_put(
            txn,
            cf,
            b"k".as_ptr(),
            1,
            b"v".as_ptr(),
            1,
            0
        ));
        self.check("put into wild", answer, &[code::SUCCESS]);
        // A minimum of free space that no disk has is an error of the commit.
        let answer = c!(tidesdb_txn_commit(txn));
        self.check("commit to wild", answer, &[code::SUCCESS, code::IO]);
        free(Kind::Transaction, txn);
        let answer = c!(tidesdb_drop_column_family(self.db, c"wild".as_ptr()));
        self.check("drop wild", answer, &[code::SUCCESS]);
        self.freed.push((Kind::Family, cf));
    }

    /// All statistics.
    pub fn statistics(&mut self) {
        let (a, b) = (self.input.key(), self.input.key());
        let Some((cf, _)) = self.family() else {
            return;
        };
        let (mut stats, mut cost, mut estimate) = (ptr::null_mut(), 0.0, 0);
        let answer = c!(tidesdb_get_stats(cf, &raw mut stats));
        self.check("stats", answer, &[code::SUCCESS]);
        c!(tidesdb_free_stats(stats));
        let (mut db_stats, mut cache_stats) = (DbStats::ZERO, CacheStats::ZERO);
        let answer = c!(tidesdb_get_db_stats(self.db, &raw mut db_stats));
        self.check("database stats", answer, &[code::SUCCESS]);
        // The default family is not among those of the sequence.
        let families = db_stats.0[0] as u32 as usize;
        assert!(families >= self.model.names.len(), "{families} families");
        let answer = c!(tidesdb_get_cache_stats(self.db, &raw mut cache_stats));
        self.check("cache stats", answer, &[code::SUCCESS]);
        let answer = c!(tidesdb_range_cost(
            cf,
            a.as_ptr(),
            a.len(),
            b.as_ptr(),
            b.len(),
            &raw mut cost
        ));
        self.check("range cost", answer, &[code::SUCCESS]);
        assert!(cost >= 0.0 && cost.is_finite(), "a cost of {cost}");
        let answer = c!(tidesdb_cf_estimate_cardinality(cf, &raw mut estimate));
        self.check("cardinality", answer, &[code::SUCCESS]);
        self.list_families();
    }

    fn list_families(&mut self) {
        let (mut names, mut count) = (ptr::null_mut(), 0);
        let answer = c!(tidesdb_list_column_families(
            self.db,
            &raw mut names,
            &raw mut count
        ));
        self.check("list families", answer, &[code::SUCCESS]);
        let mut found = Vec::new();
        let count = usize::try_from(count).expect("a count");
        // SAFETY: the library handed out an array of that many texts.
        let texts = unsafe { slice::from_raw_parts(names, count) };
        for text in texts {
            found.push(text_at(*text));
            c!(tidesdb_free(text.cast()));
        }
        c!(tidesdb_free(names.cast()));
        for family in self.model.names.keys() {
            assert!(found.contains(family), "{family} is not listed: {found:?}");
        }
    }

    /// Closes and opens again, in one of the ways.
    pub fn reopen(&mut self) {
        let way = self.input.byte() % 8;
        let path = self.path();
        let mut config = Self::config(&path);
        let mut other = ptr::null_mut();
        let answer = c!(tidesdb_open(&raw const config, &raw mut other));
        self.check("open twice", answer, &[code::LOCKED]);
        self.close_database();
        match way {
            0..=3 => self.open_database(),
            4 => {
                self.read_only(&config);
                self.open_database();
            }
            5 => {
                let mut options = OpenOptions::ZERO;
                options.set_word(0, 56);
                options.set_int(28, 1);
                options.set_word(32, (event as *const ()).addr() as u64);
                let answer = c!(kt_open(
                    &raw const config,
                    &raw const options,
                    &raw mut self.db
                ));
                self.check("open with events", answer, &[code::SUCCESS]);
            }
            _ => {
                self.wild_config(&mut config);
                let mut db = ptr::null_mut();
                let answer = c!(tidesdb_open(&raw const config, &raw mut db));
                self.check("open in any way", answer, &[0, code::INVALID_ARGS]);
                if answer == 0 {
                    self.db = db;
                } else {
                    assert!(db.is_null());
                    self.open_database();
                }
            }
        }
        self.list_prepared();
        self.use_orphans();
    }

    /// Nothing can be written to a database that is opened for reading.
    fn read_only(&mut self, config: &Config) {
        let mut options = OpenOptions::ZERO;
        options.set_word(0, 56);
        options.set_int(24, 1);
        let answer = c!(kt_open(
            ptr::from_ref(config),
            &raw const options,
            &raw mut self.db
        ));
        self.check("open for reading", answer, &[code::SUCCESS]);
        self.compare_everything();
        let settings = small_family(&mut self.input);
        let answer = c!(tidesdb_create_column_family(
            self.db,
            c"new".as_ptr(),
            &raw const settings
        ));
        self.check("create when reading", answer, &[code::READONLY]);
        if let Some((cf, _)) = self.family() {
            let mut txn = ptr::null_mut();
            let answer = c!(tidesdb_txn_begin(self.db, &raw mut txn));
            self.check("begin when reading", answer, &[code::SUCCESS]);
            let answer = c!(tidesdb_txn_put(
                txn,
                cf,
                b"k".as_ptr(),
                1,
                b"v".as_ptr(),
                1,
                0
            ));
            self.check("put when reading", answer, &[code::READONLY]);
            free(Kind::Transaction, txn);
            let answer = c!(tidesdb_compact(cf));
            self.check("compact when reading", answer, &[code::READONLY]);
        }
        self.close_database();
    }

    fn wild_config(&mut self, config: &mut Config) {
        const WORDS: [usize; 6] = [24, 32, 48, 56, 72, 96];
        const INTS: [usize; 10] = [8, 12, 16, 40, 64, 80, 84, 88, 120, 124];
        for _ in 0..self.input.below(5) {
            let (field, value) = (
                self.input.below(WORDS.len() + INTS.len()),
                self.input.number(),
            );
            match WORDS.get(field) {
                Some(offset) => config.set_word(*offset, value),
                None if INTS[field - WORDS.len()] == 16 => {
                    config.set_int(16, 99 - (value & 1) as c_int * 100)
                }
                None => config.set_int(INTS[field - WORDS.len()], value as u32 as c_int),
            }
        }
    }

    /// What was open when the database was closed is refused, whatever database is open now.
    fn use_orphans(&mut self) {
        for (kind, handle) in self.orphans.clone() {
            let answer = match kind {
                Kind::Transaction => c!(tidesdb_txn_commit(handle)),
                Kind::Iterator => c!(tidesdb_iter_next(handle)),
                _ => code::INVALID_DB,
            };
            let allowed = [code::INVALID_DB, code::INVALID_ARGS];
            assert!(
                allowed.contains(&answer),
                "{kind:?} of a closed database: {answer}"
            );
        }
    }

    /// Copies the database and looks at the copy.
    pub fn copy(&mut self) {
        let is_checkpoint = self.input.byte() & 1 == 1;
        self.copies_made += 1;
        if self.copies_made > 3 {
            return;
        }
        let path = text(&self.directory.join(format!("copy-{}", self.copies_made)));
        let make = |session: &Self| {
            if is_checkpoint {
                c!(tidesdb_checkpoint(session.db, path.as_ptr()))
            } else {
                c!(tidesdb_backup(session.db, path.as_ptr()))
            }
        };
        let answer = make(self);
        self.check("copy", answer, &[code::SUCCESS]);
        let answer = make(self);
        self.check("copy to the same place", answer, &[code::EXISTS]);
        let config = Self::config(&path);
        let mut copy = ptr::null_mut();
        let answer = c!(tidesdb_open(&raw const config, &raw mut copy));
        self.check("open the copy", answer, &[code::SUCCESS]);
        let original = std::mem::replace(&mut self.db, copy);
        self.compare_everything();
        self.db = original;
        let answer = c!(tidesdb_close(copy));
        self.check("close the copy", answer, &[code::SUCCESS]);
        self.freed.push((Kind::Database, copy));
    }

    /// Settings from a file of any bytes, saved and loaded, and changed while the family is in use.
    pub fn settings(&mut self) {
        let file = self.directory.join("settings.ini");
        let path = text(&file);
        let content = self.input.take(120).to_vec();
        let content = if content.first().is_some_and(|byte| byte & 1 == 0) {
            [
                b"[f]\nwrite_buffer_size = 4096\nbloom_fpr=0.5\n".as_slice(),
                &content,
            ]
            .concat()
        } else {
            content
        };
        fs::write(&file, &content).expect("a file in a directory of the test");
        let mut config = c!(tidesdb_default_column_family_config());
        let answer = c!(tidesdb_cf_config_load_from_ini(
            path.as_ptr(),
            c"f".as_ptr(),
            &raw mut config
        ));
        self.check("load settings", answer, &[0, code::CORRUPTION]);
        if answer == 0 {
            self.try_family(&config);
        }
        let saved = small_family(&mut self.input);
        let answer = c!(tidesdb_cf_config_save_to_ini(
            path.as_ptr(),
            c"g".as_ptr(),
            &raw const saved
        ));
        self.check("save settings", answer, &[0, code::CORRUPTION]);
        if answer == 0 {
            let mut loaded = FamilyConfig::ZERO;
            let answer = c!(tidesdb_cf_config_load_from_ini(
                path.as_ptr(),
                c"g".as_ptr(),
                &raw mut loaded
            ));
            self.check("load what was saved", answer, &[0, code::CORRUPTION]);
            assert!(
                answer != 0 || loaded.0[16..24] == saved.0[16..24],
                "other settings than were saved"
            );
        }
        if let Some((cf, _)) = self.family() {
            let answer = c!(tidesdb_cf_update_runtime_config(
                cf,
                &raw const saved,
                c_int::from(content.len() > 9)
            ));
            self.check("change settings", answer, &[0, code::INVALID_ARGS]);
        }
    }

    /// Orders of the user.
    pub fn comparators(&mut self) {
        let (a, b) = (self.input.key(), self.input.key());
        let label = name(["mine", "memcmp", ""][self.input.below(3)]);
        let answer = c!(tidesdb_register_comparator(
            self.db,
            label.as_ptr(),
            Some(backwards),
            ptr::null(),
            ptr::null_mut()
        ));
        self.check("register an order", answer, &[0, code::INVALID_ARGS]);
        let (mut compare, mut ctx): (Option<Compare>, _) = (None, ptr::null_mut());
        let answer = c!(tidesdb_get_comparator(
            self.db,
            label.as_ptr(),
            &raw mut compare,
            &raw mut ctx
        ));
        let allowed = if label.is_empty() {
            code::INVALID_ARGS
        } else {
            code::SUCCESS
        };
        self.check("get an order", answer, &[allowed]);
        assert_eq!(compare.is_some(), answer == 0);
        let none = ptr::null_mut();
        let arguments = (a.as_ptr(), a.len(), b.as_ptr(), b.len());
        let (left, left_size, right, right_size) = arguments;
        let order = c!(tidesdb_comparator_memcmp(
            left, left_size, right, right_size, none
        ));
        assert_eq!(order, a.cmp(&b) as c_int);
        let reverse = c!(tidesdb_comparator_reverse_memcmp(
            left, left_size, right, right_size, none
        ));
        assert_eq!(reverse, -order);
        let others = [
            c!(tidesdb_comparator_lexicographic(
                left, left_size, right, right_size, none
            )),
            c!(tidesdb_comparator_uint64(
                left, left_size, right, right_size, none
            )),
            c!(tidesdb_comparator_int64(
                left, left_size, right, right_size, none
            )),
            c!(tidesdb_comparator_case_insensitive(
                left, left_size, right, right_size, none
            )),
        ];
        assert!(a != b || others == [0; 4], "equal keys differ: {others:?}");
    }

    /// Functions without a database.
    pub fn plain_functions(&mut self) {
        let (number, null): (_, *const c_void) = (self.input.number(), ptr::null());
        self.note("functions without a database".to_owned());
        assert!(c!(tidesdb_raise_open_file_limit(0)) > 0);
        let answer = c!(tidesdb_init(null, null, null, null));
        assert_eq!(answer, -1, "initialised by the open");
        let answer = c!(tidesdb_init(
            (FUNCTIONS as *const [&str]).cast(),
            null,
            null,
            null
        ));
        self.check("init with one function", answer, &[code::INVALID_ARGS]);
        c!(tidesdb_finalize());
        let answer = c!(tidesdb_init(null, null, null, null));
        assert_eq!(answer, 0, "initialised again");
        let is_available = c!(tidesdb_compression_available(number as u32 as c_int));
        assert!((0..=1).contains(&is_available));
        assert!(!text_at(c!(kt_version())).is_empty());
        c!(kt_log_text(
            number as u32 as c_int,
            null.cast(),
            1,
            null.cast()
        ));
        c!(kt_log_text(
            0,
            c"file".as_ptr(),
            -1,
            c"a line %s %n".as_ptr()
        ));
        c!(tidesdb_log_write(
            0,
            c"file".as_ptr(),
            1,
            c"%d of %s".as_ptr(),
            7_i32,
            c"seven".as_ptr()
        ));
        assert!(c!(tidesdb_objstore_fs_create(c"/".as_ptr())).is_null());
        assert!(c!(tidesdb_objstore_s3_create_config(null)).is_null());
        let place = c"x".as_ptr();
        assert!(
            c!(tidesdb_objstore_s3_create(
                place, place, place, place, place, place, 0, 0
            ))
            .is_null()
        );
        assert_eq!(c!(tidesdb_objstore_default_config()).0[1], 0);
        let answer = c!(tidesdb_promote_to_primary(self.db));
        self.check("promote", answer, &[code::INVALID_ARGS]);
        c!(tidesdb_free(ptr::null_mut()));
        c!(tidesdb_free_stats(ptr::null_mut()));
        c!(kt_free_prepared(ptr::null_mut(), 0));
        c!(kt_clear_last_error());
        assert_eq!(c!(kt_last_error_code()), 0);
        let (mut family, mut key, mut size) = (null.cast(), null.cast(), 9);
        assert_eq!(
            c!(kt_last_conflict(
                &raw mut family,
                &raw mut key,
                &raw mut size
            )),
            0
        );
        assert!(size == 0 && family.is_null() && key.is_null());
    }

    /// The handle of the database, for calls that must refuse what comes with it.
    pub fn database(&self) -> Handle {
        self.db
    }
}
