/*
 * What Kingtide adds to tidesdb.h: functions that begin with kt_, on the same handles, under the same rules.
 *
 * This header only grows. Structs of options begin with their size, which the initialiser sets (KT_..._INIT), so that a
 * program that was compiled against an older header goes on with a newer library.
 */
#ifndef KINGTIDE_H
#define KINGTIDE_H

#include <tidesdb/tidesdb.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this library, as text; static. */
const char *kt_version(void);

/* ------------------------------------------------------------------------------------------------ errors */

/*
 * What exactly went wrong, where several kinds share one code of tidesdb.h. Numbers stay; new kinds may be added, so treat
 * an unknown one by its code.
 */
typedef enum {
    KT_KIND_NONE = 0,
    /* An argument breaks a rule that the call documents. Fix the call. */
    KT_KIND_INVALID_ARGUMENT = 1,
    KT_KIND_NOT_FOUND = 2,
    KT_KIND_ALREADY_EXISTS = 3,
    /* Another opening holds the database. */
    KT_KIND_LOCKED = 4,
    KT_KIND_READ_ONLY = 5,
    KT_KIND_TOO_LARGE = 6,
    /* Try again later. */
    KT_KIND_BUSY = 7,
    /* Another transaction committed first. Reset and try again. */
    KT_KIND_CONFLICT = 8,
    /* Nothing is lost; writing goes on once space is back. */
    KT_KIND_DISK_FULL = 9,
    KT_KIND_IO = 10,
    /* Restore from a backup; kt_verify() tells which files. */
    KT_KIND_CORRUPTION = 11,
    /* The log could not be synced: this commit is wholly there or wholly absent after the next open. */
    KT_KIND_OUTCOME_UNKNOWN = 12,
    /* An earlier failure stopped all writing in this opening. Reads go on; open again to write. */
    KT_KIND_REOPEN_REQUIRED = 13,
    KT_KIND_COMPARATOR_MISSING = 14,
    KT_KIND_NEWER_VERSION = 15,
    /* The database or the transaction is closed or finished. */
    KT_KIND_CLOSED = 16,
    /* The transaction holds more than it may. */
    KT_KIND_MEMORY_LIMIT = 17,
    /* The transaction was aborted, or took longer than it may. */
    KT_KIND_ABORTED = 18,
    KT_KIND_OUT_OF_MEMORY = 19,
    /* Not a handle of its kind, or freed. */
    KT_KIND_BAD_HANDLE = 20,
    /* In use by another thread. */
    KT_KIND_HANDLE_IN_USE = 21,
    /* A bug in this library. */
    KT_KIND_INTERNAL = 22
} kt_error_kind_t;

/*
 * About the last call of this thread that failed; calls that succeed leave it. The text is for people, may change from
 * version to version, is never NULL, and is lent until the thread's next failure.
 */
int kt_last_error_code(void);
int kt_last_error_kind(void);
const char *kt_last_error_message(void);
void kt_clear_last_error(void);

/*
 * Where the last failure of this thread found another transaction, if it was a conflict: 1, with the family's name and the
 * key, lent until the thread's next failure. Else 0, NULL and 0. Each argument may be NULL.
 */
int kt_last_conflict(const char **family, const uint8_t **key, size_t *key_size);

/* Writes a line to the log, as tidesdb_log_write() of tidesdb/db.h does, without printf arguments. */
void kt_log_text(int level, const char *file, int line, const char *text);

/* ------------------------------------------------------------------------------------------------ opening */

/* A key order, for kt_open(); the fields are the arguments of tidesdb_register_comparator(). */
typedef struct {
    const char *name;
    tidesdb_comparator_fn fn;
    const char *ctx_str;
    void *ctx;
} kt_comparator_t;

/* What happened. New kinds may be added: treat an unknown one by its text. */
typedef enum {
    KT_EVENT_OTHER = 0,
    KT_EVENT_OPENED = 1,
    KT_EVENT_CLOSED = 2,
    KT_EVENT_MEMTABLE_SEALED = 3,
    KT_EVENT_FLUSH_BEGIN = 4,
    KT_EVENT_FLUSH_END = 5,
    KT_EVENT_FLUSH_GIVEN_UP = 6,
    KT_EVENT_MERGE_BEGIN = 7,
    KT_EVENT_MERGE_END = 8,
    KT_EVENT_MERGE_GIVEN_UP = 9,
    /* A writer waits for flushing, and has waited. */
    KT_EVENT_STALL_BEGIN = 10,
    KT_EVENT_STALL_END = 11,
    KT_EVENT_LOG_SYNC_SLOW = 12,
    KT_EVENT_LOG_SYNC_FAILED = 13,
    KT_EVENT_BACKGROUND_ERROR = 14,
    KT_EVENT_FILE_REMOVED = 15,
    /* A backup or a checkpoint. */
    KT_EVENT_COPY_MADE = 16,
    KT_EVENT_COMPARATOR_REGISTERED = 17,
    /* A line of the program. */
    KT_EVENT_MESSAGE = 18,
    /* Events that were not told because too many waited. */
    KT_EVENT_LOST = 19,
    /* The log was synced; left out while many events wait. */
    KT_EVENT_LOG_SYNCED = 20,
    /* A writer has waited for memory; a writer was held back for a moment, left out as above. */
    KT_EVENT_MEMORY_WAITED = 21,
    KT_EVENT_WRITER_DELAYED = 22
} kt_event_kind_t;

/* Something that happened; lent for the call. Fields that say nothing about a kind are 0 or NULL. */
typedef struct {
    size_t size;
    /* A kt_event_kind_t and a tidesdb_log_level_t. */
    int kind;
    int level;
    /* Microseconds since 1970. */
    uint64_t unix_micros;
    /* The line that the log gets. */
    const char *text;
    const char *family;
    /* Of a flush or merge: tables read (at its beginning) or written, their bytes. */
    uint64_t tables;
    uint64_t bytes;
    /* How long it took. */
    uint64_t micros;
} kt_event_t;

/*
 * Is told of events, one after the other, on a thread of the database that does nothing else. Every call is allowed but
 * closing the database.
 */
typedef void (*kt_event_fn)(const kt_event_t *event, void *ctx);

typedef struct {
    size_t size;
    /* Orders that are known from the start, so that families that use them open with the database. */
    const kt_comparator_t *comparators;
    size_t comparator_count;
    /* 1: nothing in the directory is written, not even the lock; writing answers TDB_ERR_READONLY. */
    int read_only;
    /* 1: TDB_ERR_NOT_FOUND when there is no database, instead of creating one. */
    int must_exist;
    /* Is told what happens, until the database is closed; NULL for nobody. */
    kt_event_fn event_fn;
    void *event_ctx;
    /* Bytes that one transaction may hold (TDB_ERR_MEMORY_LIMIT); 0: the most, 3 GiB. */
    size_t transaction_bytes_max;
} kt_open_options_t;

#define KT_OPEN_OPTIONS_INIT {sizeof(kt_open_options_t), NULL, 0, 0, 0, NULL, NULL, 0}

/*
 * As tidesdb_open(), with options; NULL is the defaults. Comparators: TDB_ERR_INVALID_ARGS as
 * tidesdb_register_comparator(), and for a name that is there twice.
 */
int kt_open(const tidesdb_config_t *config, const kt_open_options_t *options, tidesdb_t **db);

/* ------------------------------------------------------------------------------------------------ snapshots */

typedef struct kt_snapshot_t kt_snapshot_t;

/*
 * Takes a snapshot of what is committed now, over all families. It pins what it sees in memory and on disk. `*snapshot` is
 * NULL unless it succeeds; free it with kt_snapshot_free(). Any thread.
 *
 * With a name (1 to 127 bytes) it is listed under it and found by kt_snapshot_find(); NULL for none.
 *
 *   TDB_ERR_EXISTS  a snapshot of that name is alive
 */
int kt_snapshot_create(tidesdb_t *db, const char *name, kt_snapshot_t **snapshot);

/* Another handle to the snapshot of that name, to be freed as well; TDB_ERR_NOT_FOUND when none is alive. */
int kt_snapshot_find(tidesdb_t *db, const char *name, kt_snapshot_t **snapshot);

/* The newest commit that a snapshot sees; 0 for a handle that is wrong. */
uint64_t kt_snapshot_sequence(kt_snapshot_t *snapshot);

/* Ends a handle; the snapshot ends with its last one. NULL is allowed. Transactions that began at it go on. */
void kt_snapshot_free(kt_snapshot_t *snapshot);

/* ------------------------------------------------------------------------------------------------ transactions */

/* The strictest sync mode of the families that a transaction touches. */
#define KT_SYNC_OF_FAMILIES (-1)

typedef struct {
    size_t size;
    /* A tidesdb_isolation_level_t. */
    int isolation;
    /* When the commit is durable: a tidesdb_sync_mode_t, or KT_SYNC_OF_FAMILIES. */
    int sync_mode;
    /* For TDB_SYNC_INTERVAL. */
    uint64_t sync_interval_us;
    /* How long it may take from its beginning on; afterwards every call answers as on a finished transaction
     * (KT_KIND_ABORTED), but for rollback, reset and free. 0: no limit. */
    uint64_t timeout_us;
    /* The snapshot that it reads at, from repeatable read on; NULL: what is committed when it begins. */
    kt_snapshot_t *snapshot;
} kt_txn_options_t;

#define KT_TXN_OPTIONS_INIT {sizeof(kt_txn_options_t), TDB_ISOLATION_READ_COMMITTED, KT_SYNC_OF_FAMILIES, 0, 0, NULL}

/*
 * Begins a transaction with options; NULL is the defaults. A reset keeps none of them but the level it is given.
 *
 *   TDB_ERR_INVALID_ARGS  an impossible option; a snapshot of another database, or below repeatable read
 */
int kt_txn_begin(tidesdb_t *db, const kt_txn_options_t *options, tidesdb_txn_t **txn);

/*
 * As tidesdb_txn_get(), and the key counts as written at commit: of two transactions that read it so, one fails with a
 * conflict, at every level.
 */
int kt_txn_get_for_update(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size,
                          uint8_t **value, size_t *value_size);

/*
 * Reads `count` values, all at one moment. `values[i]` is an allocation that the caller frees, or NULL when the key has no
 * value; `value_sizes[i]` its size. When it fails, the arrays are as they were.
 */
int kt_txn_multi_get(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, size_t count, const uint8_t *const *keys,
                     const size_t *key_sizes, uint8_t **values, size_t *value_sizes);

/*
 * Deletes every key from `start` on and before `end`, whatever is there at commit's place in the order of commits; costs
 * about what one delete costs. start equal to end deletes nothing.
 *
 *   TDB_ERR_INVALID_ARGS  an empty key, start behind end
 */
int kt_txn_delete_range(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *start, size_t start_size,
                        const uint8_t *end, size_t end_size);

/* Deletes every key that begins with `prefix`. TDB_ERR_INVALID_ARGS for an empty one, and for an order other than memcmp. */
int kt_txn_delete_prefix(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *prefix, size_t prefix_size);

/* What a transaction can be aborted with. */
typedef struct kt_abort_t kt_abort_t;

/*
 * Makes what the transaction can be aborted with until its end or reset; free it with kt_abort_free(). Called by the thread
 * of the transaction.
 */
int kt_txn_abort_handle(tidesdb_txn_t *txn, kt_abort_t **abort);

/*
 * Aborts the transaction, from any thread: its next call answers TDB_ERR_INVALID_ARGS (KT_KIND_ABORTED), a commit that has
 * not begun included, and what it pins is released. Rollback, reset and free work. Does nothing once it has ended.
 */
int kt_abort(kt_abort_t *abort);

/* Frees the handle; the transaction goes on. NULL is allowed. */
void kt_abort_free(kt_abort_t *abort);

/* ------------------------------------------------------------------------------------------------ two phases */

/*
 * Prepares a transaction under a name of 1 to 128 bytes: its writes are on the device, and hold as locks until the outcome,
 * across closing and crashes. The transaction object is finished then, and may be reset or freed.
 *
 *   TDB_ERR_EXISTS     the name was used; the transaction is as it was
 *   TDB_ERR_CONFLICT   as a commit, and with what other prepared transactions hold
 *   TDB_ERR_TOO_LARGE  a name of more than 128 bytes
 */
int kt_txn_prepare(tidesdb_txn_t *txn, const uint8_t *xid, size_t xid_size);

/* Ends a prepared transaction. TDB_ERR_NOT_FOUND: none of that name is prepared. */
int kt_commit_prepared(tidesdb_t *db, const uint8_t *xid, size_t xid_size);
int kt_rollback_prepared(tidesdb_t *db, const uint8_t *xid, size_t xid_size);

/* A prepared transaction that waits for its outcome. */
typedef struct {
    uint8_t *xid;
    size_t xid_size;
    uint64_t operation_count;
    /* Bytes that it holds. */
    uint64_t bytes;
    /* Microseconds since it was prepared, by the clock of the system. */
    uint64_t age_us;
    /* A tidesdb_isolation_level_t. */
    int isolation;
    /* The families that it writes to. */
    int family_count;
    char **families;
} kt_prepared_t;

/* All prepared transactions, also those of earlier openings; free the list with kt_free_prepared(). */
int kt_recover_prepared(tidesdb_t *db, kt_prepared_t **list, size_t *count);

/* Frees what kt_recover_prepared() answered, with its count; NULL is allowed. */
void kt_free_prepared(kt_prepared_t *list, size_t count);

/* ------------------------------------------------------------------------------------------------ iterators */

/* What an iterator visits: from `lower` on, before `upper`, keys that begin with `prefix`. A size of 0: no bound. */
typedef struct {
    size_t size;
    const uint8_t *lower;
    size_t lower_size;
    const uint8_t *upper;
    size_t upper_size;
    /* For the order memcmp only. */
    const uint8_t *prefix;
    size_t prefix_size;
} kt_iter_options_t;

#define KT_ITER_OPTIONS_INIT {sizeof(kt_iter_options_t), NULL, 0, NULL, 0, NULL, 0}

/*
 * As tidesdb_iter_new(), with bounds, which are copied; NULL is none.
 *
 *   TDB_ERR_INVALID_ARGS  impossible bounds
 */
int kt_iter_new(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const kt_iter_options_t *options,
                tidesdb_iter_t **iter);

/* The Unix time in seconds at which the entry expires, 0 for never. TDB_ERR_INVALID_ARGS when not positioned. */
int kt_iter_expires_at(tidesdb_iter_t *iter, time_t *ttl);

/* ------------------------------------------------------------------------------------------------ verification */

/*
 * Waits until no flush and no merge is queued or running, and does at once what an idle database does by itself after a while:
 * merges what the newest writes left on level 1 and tables full of tombstones, puts scattered values in order, brings what was
 * written into the block cache while that has room, gives memory and log space back. What is in memtables stays there:
 * tidesdb_flush_memtable() first, to have it in tables. May take as long as those merges do; the database works on meanwhile.
 *
 *   TDB_ERR_BUSY  called from inside a callback
 */
int kt_wait_idle(tidesdb_t *db);

/* Told the bytes that are done and the bytes in all. */
typedef void (*kt_progress_fn)(uint64_t done, uint64_t all, void *ctx);
/* Told of one damaged file, in words; lent for the call. */
typedef void (*kt_damage_fn)(const char *text, void *ctx);

/*
 * Reads every byte of every table and value file and checks it (the manifest and the log were checked by the open). The
 * callbacks run on this thread and may be NULL, as may `damaged_files`. The database works on meanwhile.
 *
 *   TDB_ERR_CORRUPTION  something is damaged
 */
int kt_verify(tidesdb_t *db, kt_progress_fn progress, kt_damage_fn damage, void *ctx, size_t *damaged_files);

#ifdef __cplusplus
}
#endif

#endif
