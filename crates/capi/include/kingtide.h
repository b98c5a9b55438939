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

/* ------------------------------------------------------------------------------------------------ snapshots */

typedef struct kt_snapshot_t kt_snapshot_t;

/*
 * Takes a snapshot of what is committed now, over all families. It pins what it sees in memory and on disk. `*snapshot` is
 * NULL unless it succeeds; free it with kt_snapshot_free(). Any thread.
 */
int kt_snapshot_create(tidesdb_t *db, kt_snapshot_t **snapshot);

/* The newest commit that a snapshot sees; 0 for a handle that is wrong. */
uint64_t kt_snapshot_sequence(kt_snapshot_t *snapshot);

/* Ends a snapshot; NULL is allowed. */
void kt_snapshot_free(kt_snapshot_t *snapshot);

#ifdef __cplusplus
}
#endif

#endif
