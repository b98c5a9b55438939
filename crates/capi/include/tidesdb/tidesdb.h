/*
 * Kingtide through the interface of libtidesdb 9.3.14: an embedded, transactional key-value store.
 *
 *     tidesdb_config_t config = tidesdb_default_config();
 *     config.db_path = "/var/lib/app/data";
 *     tidesdb_t *db;
 *     if (tidesdb_open(&config, &db) != TDB_SUCCESS) { ... }
 *
 *     tidesdb_column_family_config_t settings = tidesdb_default_column_family_config();
 *     tidesdb_create_column_family(db, "ports", &settings);
 *     tidesdb_column_family_t *ports = tidesdb_get_column_family(db, "ports");
 *
 *     tidesdb_txn_t *txn;
 *     tidesdb_txn_begin(db, &txn);
 *     tidesdb_txn_put(txn, ports, (const uint8_t *)"brest", 5, (const uint8_t *)"12", 2, 0);
 *     if (tidesdb_txn_commit(txn) != TDB_SUCCESS) { ... }
 *     tidesdb_txn_free(txn);
 *     tidesdb_close(db);
 *
 * RESULTS. Functions that return int answer TDB_SUCCESS (0) or a negative code, unless their comment says otherwise. Each
 * function names the codes that are particular to it; besides, every function may answer:
 *
 *   TDB_ERR_INVALID_ARGS  a pointer that must not be NULL is, or a handle is not of its kind or was freed
 *   TDB_ERR_BUSY          a transaction or iterator is in use by another thread; a call from inside a callback that would
 *                         wait for the caller of the callback
 *   TDB_ERR_INVALID_DB    the database was closed; the handle belongs to the parent of this (forked) process
 *   TDB_ERR_IO            storage failed: also a full disk, and a commit whose outcome is unknown (see kingtide.h)
 *   TDB_ERR_CORRUPTION    stored bytes are damaged; never reported as TDB_ERR_NOT_FOUND
 *   TDB_ERR_MEMORY        no memory, or 262,144 live handles of one kind
 *   TDB_ERR_UNKNOWN       a bug in this library: it caught its own failure
 *
 * The text and the exact kind of a thread's last failure are told by kt_last_error_message() and kt_last_error_kind().
 *
 * HANDLES are opaque and checked: NULL, a freed one, one of another kind or of another database is an error and not
 * undefined behaviour. Handles of families live until the family is dropped or the database closed, and are not freed.
 *
 * THREADS. Databases and families are used by any number of threads at once. A transaction and its iterators are used by
 * one thread at a time; a second one meanwhile is answered TDB_ERR_BUSY. Different transactions never wait for each other
 * except where their commits meet in the log.
 *
 * MEMORY. Keys and values that are passed in are copied. What is handed out is either lent, for a time that the comment
 * says, or owned by the caller and freed with free() or tidesdb_free(). With an allocator of your own (tidesdb_init), its
 * free function takes the place of free().
 *
 * CALLBACKS are called from any thread, must not unwind (no exception, no longjmp), and may not close the database.
 *
 * FORK. A child process may not use its parent's handles (TDB_ERR_INVALID_DB), and may open databases of its own.
 */
#ifndef TIDESDB_H
#define TIDESDB_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "tidesdb_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ codes and limits */

#define TDB_SUCCESS 0
#define TDB_ERR_MEMORY (-1)
#define TDB_ERR_INVALID_ARGS (-2)
#define TDB_ERR_NOT_FOUND (-3)
#define TDB_ERR_IO (-4)
#define TDB_ERR_CORRUPTION (-5)
#define TDB_ERR_EXISTS (-6)
/* Another transaction committed first: reset this one and try again. */
#define TDB_ERR_CONFLICT (-7)
/* A key over 1 MiB, a value over 1 GiB, a transaction over 3 GiB. */
#define TDB_ERR_TOO_LARGE (-8)
#define TDB_ERR_MEMORY_LIMIT (-9)
#define TDB_ERR_INVALID_DB (-10)
#define TDB_ERR_UNKNOWN (-11)
/* The database is open already, here or in another process. */
#define TDB_ERR_LOCKED (-12)
#define TDB_ERR_READONLY (-13)
/* Try again later. */
#define TDB_ERR_BUSY (-14)
/* The comparator of the family is not registered. */
#define TDB_ERR_PRECONDITION (-15)

/* Bytes, the closing zero included. */
#define TDB_MAX_COMPARATOR_NAME 64
#define TDB_MAX_COMPARATOR_CTX 256
#define TDB_MAX_CF_NAME_LEN 128

typedef enum {
    TDB_BACKEND_FS = 0,
    TDB_BACKEND_S3 = 1,
    TDB_BACKEND_UNKNOWN = 99
} tidesdb_objstore_backend_t;

typedef enum {
    TDB_LOG_DEBUG = 0,
    TDB_LOG_INFO = 1,
    TDB_LOG_WARN = 2,
    TDB_LOG_ERROR = 3,
    TDB_LOG_FATAL = 4,
    TDB_LOG_NONE = 99
} tidesdb_log_level_t;

/* What a transaction sees of others. Reading alone never fails with a conflict, at any level. */
typedef enum {
    /* As read committed: writes are buffered until commit, so there is nothing uncommitted to read. */
    TDB_ISOLATION_READ_UNCOMMITTED = 0,
    /* Each operation sees the newest commits; an iterator sees those of its birth. */
    TDB_ISOLATION_READ_COMMITTED = 1,
    /* One view from the beginning; what was read or written must not have changed at commit. */
    TDB_ISOLATION_REPEATABLE_READ = 2,
    /* One view from the beginning; the first committer of a key wins. */
    TDB_ISOLATION_SNAPSHOT = 3,
    /* As if one after the other, gaps between keys included. */
    TDB_ISOLATION_SERIALIZABLE = 4
} tidesdb_isolation_level_t;

typedef enum tidesdb_compression_algorithm {
    TDB_COMPRESS_NONE = 0,
    TDB_COMPRESS_SNAPPY = 1,
    TDB_COMPRESS_LZ4 = 2,
    TDB_COMPRESS_ZSTD = 3,
    TDB_COMPRESS_LZ4_FAST = 4
} compression_algorithm;

/* When a commit survives a power cut. In every mode it survives the end of the process. */
typedef enum {
    /* Never by itself: tidesdb_sync_wal(). */
    TDB_SYNC_NONE = 0,
    /* Before the commit returns. */
    TDB_SYNC_FULL = 1,
    /* In the background, at most sync_interval_us later. */
    TDB_SYNC_INTERVAL = 2
} tidesdb_sync_mode_t;

/* ------------------------------------------------------------------------------------------------ types */

typedef struct tidesdb_t tidesdb_t;
typedef struct tidesdb_column_family_t tidesdb_column_family_t;
typedef struct tidesdb_txn_t tidesdb_txn_t;
typedef struct tidesdb_iter_t tidesdb_iter_t;
typedef struct tidesdb_objstore_t tidesdb_objstore_t;

/* As malloc, calloc, realloc and free; called from any thread. */
typedef void *(*tidesdb_malloc_fn)(size_t size);
typedef void *(*tidesdb_calloc_fn)(size_t count, size_t size);
typedef void *(*tidesdb_realloc_fn)(void *ptr, size_t size);
typedef void (*tidesdb_free_fn)(void *ptr);

/*
 * A total order of keys: negative, zero or positive as key1 is before, equal to or behind key2. Must stay the same for the
 * life of a database. Called from any thread, often: it must be fast, and must not call this library.
 */
typedef int (*tidesdb_comparator_fn)(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size,
                                     void *ctx);

/* One operation of a commit. Lent for the call of the hook. */
typedef struct {
    const uint8_t *key;
    size_t key_size;
    /* NULL for a delete. */
    const uint8_t *value;
    size_t value_size;
    /* Unix seconds at which the value expires; 0 for never. */
    time_t ttl;
    /* 0 for a put, 1 for a delete; 2 for kt_txn_delete_range(): `key` to `value` were deleted. */
    int is_delete;
} tidesdb_commit_op_t;

/* See tidesdb_cf_set_commit_hook(). The result is written to the log when it is not 0, and has no other effect. */
typedef int (*tidesdb_commit_hook_fn)(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx);

/* Settings of an object store. Accepted, and not used by this version. */
typedef struct {
    const char *local_cache_path;
    size_t local_cache_max_bytes;
    int cache_on_read;
    int cache_on_write;
    int max_concurrent_uploads;
    int max_concurrent_downloads;
    size_t multipart_threshold;
    size_t multipart_part_size;
    int sync_manifest_to_object;
    int replicate_wal;
    int wal_upload_sync;
    size_t wal_sync_threshold_bytes;
    int wal_sync_on_commit;
    int replica_mode;
    uint64_t replica_sync_interval_us;
    int replica_replay_wal;
} tidesdb_objstore_config_t;

typedef struct {
    const char *endpoint;
    const char *bucket;
    const char *prefix;
    const char *access_key;
    const char *secret_key;
    const char *region;
    int use_ssl;
    int use_path_style;
    const char *tls_ca_path;
    int tls_insecure_skip_verify;
    size_t multipart_threshold;
    size_t multipart_part_size;
} tidesdb_objstore_s3_config_t;

/*
 * Settings of a column family; start from tidesdb_default_column_family_config(). A setting out of its range is fitted to
 * it unless a comment says that it is refused. What is in force is told by tidesdb_get_stats().
 */
typedef struct {
    /* Filled in where the struct is handed out; not read. */
    char name[TDB_MAX_CF_NAME_LEN];
    /* Bytes of the family's memtables: 4096 to 16 GiB. */
    size_t write_buffer_size;
    /* How many times larger each level is than the one above: 2 to 1000. */
    size_t level_size_ratio;
    /* Levels that exist even when empty: 1 to 16. */
    int min_levels;
    /* Accepted: merges choose their levels by the shape of the tree. */
    int dividing_level_offset;
    /* Values of this many bytes or more go to the value log; 0: none do. */
    size_t klog_value_threshold;
    /* A number that is no codec is refused. */
    enum tidesdb_compression_algorithm compression_algorithm;
    int enable_bloom_filter;
    /* Share of look-ups of absent keys that the filter passes: between 0 and 1. */
    double bloom_fpr;
    /* Accepted: every table has a full index. */
    int enable_block_indexes;
    /* Accepted; below 1 becomes 1. */
    int index_sample_ratio;
    /* Accepted; outside of 4 to 256 becomes 16. */
    int block_index_prefix_len;
    /* A tidesdb_sync_mode_t; another number is refused. A transaction over several families takes the strictest. */
    int sync_mode;
    /* For TDB_SYNC_INTERVAL; 0 is refused there. */
    uint64_t sync_interval_us;
    /* The name of the key order; empty means memcmp. */
    char comparator_name[TDB_MAX_COMPARATOR_NAME];
    /* Filled in where the struct is handed out, from the registration of the comparator; not read. So are the next two. */
    char comparator_ctx_str[TDB_MAX_COMPARATOR_CTX];
    void *comparator_fn_cached;
    void *comparator_ctx_cached;
    /* Accepted. */
    int skip_list_max_level;
    /* Accepted. */
    float skip_list_probability;
    /* Reported back; tidesdb_txn_begin() is read committed whatever it says. Outside of 0 to 4 is refused. */
    tidesdb_isolation_level_t default_isolation_level;
    /* Bytes of the device that stay free: with less, writes are answered as with a full disk. */
    uint64_t min_disk_space;
    /* Sorted runs on level 1 that start a merge; four times as many while nobody reads the family. */
    int l1_file_count_trigger;
    /* Full memtables at which writers wait. */
    int l0_queue_stall_threshold;
    /* Share of a table's entries that are tombstones from which on it is merged down; 0: whatever the share. */
    double tombstone_density_trigger;
    /* Tables with fewer entries are not judged by their tombstones. */
    uint64_t tombstone_density_min_entries;
    /* Accepted, reported back. */
    int use_btree;
    /* Set when the family is created; see tidesdb_cf_set_commit_hook(). */
    tidesdb_commit_hook_fn commit_hook_fn;
    void *commit_hook_ctx;
    /* Accepted, reported back. */
    size_t object_target_file_size;
    int object_lazy_compaction;
    int object_prefetch_compaction;
} tidesdb_column_family_config_t;

/* Settings of a database; start from tidesdb_default_config(). */
typedef struct {
    /* The directory. Lent for the call of tidesdb_open(). */
    char *db_path;
    /* 0: half the cores, 1 to 4. Below 0 is refused. */
    int num_flush_threads;
    /* 0 counts as 1. Below 0 is refused. */
    int num_compaction_threads;
    /* Lines from this level on are written, for the process; another number is refused. */
    tidesdb_log_level_t log_level;
    /* Bytes of table blocks kept in memory; 0 switches the cache off. */
    size_t block_cache_size;
    /* Tables kept open while nobody reads them; 0: no limit. Fitted to the limit of open files. */
    size_t max_open_sstables;
    /* Lines go to the file LOG in the directory instead of standard error. */
    int log_to_file;
    /* Bytes at which that file is begun anew; one old file is kept. */
    size_t log_truncation_at;
    /* Bytes of memory that the database holds at most, memtables, cache and transactions included; less than 8 MiB counts
       as that. 0: half of the machine's memory. */
    size_t max_memory_usage;
    /* All families log to one log in any case; with 1, the sync mode below replaces those of the families. */
    int unified_memtable;
    /* Accepted; so are the next two. */
    size_t unified_memtable_write_buffer_size;
    int unified_memtable_skip_list_max_level;
    float unified_memtable_skip_list_probability;
    /* A tidesdb_sync_mode_t, and its interval; 0 means 128,000 microseconds. */
    int unified_memtable_sync_mode;
    uint64_t unified_memtable_sync_interval_us;
    /* Must be NULL in this version. */
    tidesdb_objstore_t *object_store;
    tidesdb_objstore_config_t *object_store_config;
    /* Flushes that run at once; 0: as many as threads. */
    int max_concurrent_flushes;
    /* 1: tidesdb_close() waits for merges; 0: it cancels them. */
    int finish_compactions_on_close;
} tidesdb_config_t;

/* Statistics of a family. Counts are since the open, sizes of this moment. */
typedef struct {
    /* Length of the arrays below; at least 1. */
    int num_levels;
    /* Bytes of entries in memtables. */
    size_t memtable_size;
    /* Bytes of each level, tables and values. */
    size_t *level_sizes;
    int *level_num_sstables;
    /* The settings in force. */
    tidesdb_column_family_config_t *config;
    /* Entries in memtables and tables; versions that merges have not removed yet count. */
    uint64_t total_keys;
    /* Bytes of tables and values. */
    uint64_t total_data_size;
    double avg_key_size;
    double avg_value_size;
    uint64_t *level_key_counts;
    /* Sources that a look-up may have to ask; at least 1. */
    double read_amp;
    /* Of the block cache, 0 to 1. */
    double hit_rate;
    /* As set; the tree's numbers are 0. */
    int use_btree;
    uint64_t btree_total_nodes;
    uint32_t btree_max_height;
    double btree_avg_height;
    /* The sum of level_tombstone_counts. */
    uint64_t total_tombstones;
    /* Share of the tables' entries. */
    double tombstone_ratio;
    uint64_t *level_tombstone_counts;
    /* The largest share of tombstones of a table, and its level, counted from 1; 0 when there is none. */
    double max_sst_density;
    int max_sst_density_level;
    /* Bytes of the family's share of the log; 0 with a unified memtable. */
    uint64_t wal_bytes_written;
    uint64_t flush_bytes_written;
    uint64_t compaction_bytes_written;
    uint64_t compaction_bytes_read;
    /* Exactly the bytes of keys and values that were committed. */
    uint64_t user_bytes_written;
    uint64_t flush_count;
    uint64_t compaction_count;
} tidesdb_stats_t;

/* Statistics of the block cache; all 0 when it is off. */
typedef struct {
    int enabled;
    size_t total_entries;
    size_t total_bytes;
    uint64_t hits;
    uint64_t misses;
    double hit_rate;
    size_t num_partitions;
} tidesdb_cache_stats_t;

/* Statistics of a database. Fields about object stores and replicas are 0 (NULL). */
typedef struct {
    int num_column_families;
    /* Bytes of the machine's memory, and what is available of it. */
    uint64_t total_memory;
    uint64_t available_memory;
    /* What max_memory_usage came to. */
    size_t resolved_memory_limit;
    /* Of what writers may use, caches not counted: 0: less than half is in use, 1: half, 2: three quarters, 3: all. */
    int memory_pressure_level;
    int flush_pending_count;
    int64_t total_memtable_bytes;
    /* Full memtables that wait for their flush. */
    int total_immutable_count;
    int total_sstable_count;
    uint64_t total_data_size_bytes;
    int num_open_sstables;
    /* The newest commit. */
    uint64_t global_seq;
    /* Bytes that open transactions hold. */
    int64_t txn_memory_bytes;
    size_t compaction_queue_size;
    size_t flush_queue_size;
    int unified_memtable_enabled;
    /* With a unified memtable, the numbers of all memtables; else 0. */
    int64_t unified_memtable_bytes;
    int unified_immutable_count;
    int unified_is_flushing;
    uint32_t unified_next_cf_index;
    uint64_t unified_wal_generation;
    int object_store_enabled;
    const char *object_store_connector;
    size_t local_cache_bytes_used;
    size_t local_cache_bytes_max;
    int local_cache_num_files;
    uint64_t last_uploaded_generation;
    size_t upload_queue_depth;
    uint64_t total_uploads;
    uint64_t total_upload_failures;
    int replica_mode;
    uint64_t primary_epoch;
    uint64_t seen_epoch;
    /* Bytes of the log: in the first with a unified memtable, in the second without. */
    uint64_t uwal_bytes_written;
    uint64_t wal_bytes_written;
    uint64_t flush_bytes_written;
    uint64_t compaction_bytes_written;
    uint64_t compaction_bytes_read;
    uint64_t user_bytes_written;
    uint64_t flush_count;
    uint64_t compaction_count;
} tidesdb_db_stats_t;

/* ------------------------------------------------------------------------------------------------ the library */

/*
 * Chooses the allocator of everything that callers free. Give all four functions, or four NULLs for the C library's.
 * Not needed: tidesdb_open() takes the C library's. Returns 0, or -1 when the library is initialised already (by this or by
 * an open); TDB_ERR_INVALID_ARGS for some functions without the others.
 */
int tidesdb_init(tidesdb_malloc_fn malloc_fn, tidesdb_calloc_fn calloc_fn, tidesdb_realloc_fn realloc_fn,
                 tidesdb_free_fn free_fn);

/* Undoes tidesdb_init(), so that another allocator may be given. Free first what came from the old one. */
void tidesdb_finalize(void);

/* Frees what this library handed out; NULL is allowed. */
void tidesdb_free(void *ptr);

/*
 * Raises the process's limit of open files to `desired`, as far as the system lets it. 0 or less only asks. Returns the
 * limit in force.
 */
long tidesdb_raise_open_file_limit(long desired);

/* The settings to start from. Nothing in them is to be freed. */
tidesdb_config_t tidesdb_default_config(void);
tidesdb_column_family_config_t tidesdb_default_column_family_config(void);
tidesdb_objstore_config_t tidesdb_objstore_default_config(void);

/* ------------------------------------------------------------------------------------------------ databases */

/*
 * Opens the database in config->db_path, and creates the directory (mode 0755) and an empty database when there is none.
 * After a crash, everything promised is recovered before this returns. `*db` is NULL unless it succeeds.
 *
 * A family whose comparator is not registered does not keep the database from opening: calls on it answer
 * TDB_ERR_PRECONDITION until tidesdb_register_comparator() (or use kt_open() of kingtide.h).
 *
 *   TDB_ERR_INVALID_ARGS  an empty path, a refused setting, an object store
 *   TDB_ERR_LOCKED        the database is open already, here or in another process
 *   TDB_ERR_CORRUPTION    its files are damaged; nothing was changed
 *   TDB_ERR_INVALID_DB    its files are of a newer version
 */
int tidesdb_open(const tidesdb_config_t *config, tidesdb_t **db);

/*
 * Closes a database: memtables are written to tables, the log is synced, the directory is released. Its handle and those of
 * its families end; transactions and iterators answer TDB_ERR_INVALID_DB from then on and are still to be freed. Also when
 * it fails, the database is closed. Not from inside a callback (TDB_ERR_BUSY).
 */
int tidesdb_close(tidesdb_t *db);

/*
 * Makes a key order known under a name, for families that name it. The function and `ctx` must live until the database is
 * closed. `ctx_str` (may be NULL, at most 255 bytes) is only reported back.
 *
 *   TDB_ERR_INVALID_ARGS  an empty name, one of 64 bytes or more, one that is known already
 */
int tidesdb_register_comparator(tidesdb_t *db, const char *name, tidesdb_comparator_fn fn, const char *ctx_str,
                                void *ctx);

/*
 * Looks a key order up. `fn` and `ctx` may be NULL.
 *
 *   TDB_ERR_NOT_FOUND  there is none of that name
 */
int tidesdb_get_comparator(tidesdb_t *db, const char *name, tidesdb_comparator_fn *fn, void **ctx);

/* The orders that every database knows: memcmp, lexicographic (as strcmp), uint64 and int64 (keys of 8 bytes by their value
 * in native byte order, before all other keys), reverse_memcmp, case_insensitive (ASCII). `ctx` is not used. */
int tidesdb_comparator_memcmp(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx);
int tidesdb_comparator_lexicographic(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size,
                                     void *ctx);
int tidesdb_comparator_uint64(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx);
int tidesdb_comparator_int64(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx);
int tidesdb_comparator_reverse_memcmp(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size,
                                      void *ctx);
int tidesdb_comparator_case_insensitive(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size,
                                        void *ctx);

/* ------------------------------------------------------------------------------------------------ families */

/*
 * Creates an empty family. `config` is copied.
 *
 *   TDB_ERR_INVALID_ARGS  an empty name, one of 128 bytes or more, with a slash, a control character or bytes that are not
 *                         UTF-8; a refused setting; a comparator of yours with a unified memtable
 *   TDB_ERR_NOT_FOUND     the comparator is not registered
 *   TDB_ERR_EXISTS        the name is taken
 *   TDB_ERR_READONLY      the database is a replica, or was opened read-only
 */
int tidesdb_create_column_family(tidesdb_t *db, const char *name, const tidesdb_column_family_config_t *config);

/*
 * Drops a family with everything in it; its handle ends. Open iterators go on. A family created later under the same name is
 * empty.
 *
 *   TDB_ERR_NOT_FOUND  there is none of that name
 *   TDB_ERR_BUSY       a prepared transaction has locks in it
 */
int tidesdb_drop_column_family(tidesdb_t *db, const char *name);

/* As tidesdb_drop_column_family(), by handle. */
int tidesdb_delete_column_family(tidesdb_t *db, tidesdb_column_family_t *cf);

/*
 * Gives a family another name; its handle stays valid. To the name that it has: success.
 *
 *   TDB_ERR_NOT_FOUND, TDB_ERR_EXISTS, TDB_ERR_INVALID_ARGS (an impossible name)
 */
int tidesdb_rename_column_family(tidesdb_t *db, const char *old_name, const char *new_name);

/*
 * Makes an independent copy of a family as it is now. Cheap: tables are shared until they are merged.
 *
 *   TDB_ERR_NOT_FOUND, TDB_ERR_EXISTS, TDB_ERR_INVALID_ARGS (an impossible name, or its own)
 */
int tidesdb_clone_column_family(tidesdb_t *db, const char *src_name, const char *dst_name);

/*
 * The handle of a family, or NULL when there is none of that name. Always the same one for a family, valid until it is
 * dropped or the database closed; never freed.
 */
tidesdb_column_family_t *tidesdb_get_column_family(tidesdb_t *db, const char *name);

/*
 * The names of all families, sorted: an array of `*count` strings. The caller frees each string and the array.
 */
int tidesdb_list_column_families(tidesdb_t *db, char ***names, int *count);

/*
 * Changes settings of a family: all but name, comparator, use_btree and object_*. They hold for what follows, and with
 * persist_to_disk also for the next open.
 *
 *   TDB_ERR_INVALID_ARGS  a refused setting
 */
int tidesdb_cf_update_runtime_config(tidesdb_column_family_t *cf, const tidesdb_column_family_config_t *new_config,
                                     int persist_to_disk);

/*
 * Tells `fn` of every commit that writes to the family, once per commit, after it is durable and visible, with the
 * operations as they were made. Calls for one family come one at a time, in the order of commits (commit_seq only grows),
 * on the thread of the committer, which returns after its own. NULL ends it: no call begins after this returns. Not stored;
 * a crash may skip calls.
 *
 * Inside the hook, writing to the same family is refused (TDB_ERR_BUSY); other families may be written.
 */
int tidesdb_cf_set_commit_hook(tidesdb_column_family_t *cf, tidesdb_commit_hook_fn fn, void *ctx);

/*
 * Reads settings from a file of sections with `key = value` lines; what the section does not name gets its default. The keys
 * are the names of the fields, `value_threshold` for klog_value_threshold; codecs are NONE, LZ4, LZ4_FAST, ZSTD, SNAPPY.
 *
 *   TDB_ERR_IO          the file cannot be read
 *   TDB_ERR_CORRUPTION  it cannot be parsed; *config is unchanged
 */
int tidesdb_cf_config_load_from_ini(const char *ini_file, const char *section_name,
                                    tidesdb_column_family_config_t *config);

/* Writes settings as a section of a file; other sections of it stay. The file is replaced as a whole or not at all. */
int tidesdb_cf_config_save_to_ini(const char *ini_file, const char *section_name,
                                  const tidesdb_column_family_config_t *config);

/* ------------------------------------------------------------------------------------------------ transactions */

/* Begins a transaction at read committed. `*txn` is NULL unless it succeeds; free it with tidesdb_txn_free(). */
int tidesdb_txn_begin(tidesdb_t *db, tidesdb_txn_t **txn);

/* Begins a transaction at a level; TDB_ERR_INVALID_ARGS for one that is not 0 to 4. */
int tidesdb_txn_begin_with_isolation(tidesdb_t *db, tidesdb_isolation_level_t isolation, tidesdb_txn_t **txn);

/*
 * Sets a key (1 byte to 1 MiB) to a value (up to 1 GiB; value may be NULL when value_size is 0). `ttl` is the Unix time in
 * seconds at which it expires, 0 or less for never. Seen by the transaction's own reads at once, by others after commit.
 *
 *   TDB_ERR_INVALID_ARGS  an empty key, a finished transaction, a family of another database
 *   TDB_ERR_NOT_FOUND     the family was dropped
 *   TDB_ERR_TOO_LARGE     over a limit
 *   TDB_ERR_MEMORY_LIMIT  the transaction holds too much; what it has can be committed
 */
int tidesdb_txn_put(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size,
                    const uint8_t *value, size_t value_size, time_t ttl);

/*
 * Reads a value. On success `*value` is an allocation of `*value_size` bytes (never NULL) that the caller frees.
 *
 *   TDB_ERR_NOT_FOUND     the key has no value, or the family was dropped
 *   TDB_ERR_INVALID_ARGS  as tidesdb_txn_put()
 */
int tidesdb_txn_get(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size,
                    uint8_t **value, size_t *value_size);

/* As tidesdb_txn_get(), but what it reads is not checked at commit, at any level. */
int tidesdb_txn_get_notrack(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size,
                            uint8_t **value, size_t *value_size);

/* TDB_SUCCESS when the key has a value, else TDB_ERR_NOT_FOUND. Not checked at commit. */
int tidesdb_txn_contains(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size);

/* Deletes a key; deleting what is not there succeeds. Errors as tidesdb_txn_put(). */
int tidesdb_txn_delete(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size);

/*
 * As tidesdb_txn_delete(), for a key that was put once since it was last deleted: the put and this vanish together in any
 * merge. Used on other keys it is never wrong, but saves nothing.
 */
int tidesdb_txn_single_delete(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key, size_t key_size);

/*
 * Commits: everything or nothing, durable as the sync mode says. Afterwards the transaction is finished: reset or free it.
 *
 *   TDB_ERR_CONFLICT      another one committed first; nothing was written
 *   TDB_ERR_INVALID_ARGS  it is finished already
 *   TDB_ERR_BUSY          writers are ahead of flushing for too long: nothing was written, try again later
 *   TDB_ERR_IO            disk full: nothing was written; or the log failed, and the commit is wholly there or wholly absent
 *                         after the next open (kt_last_error_kind() tells which)
 */
int tidesdb_txn_commit(tidesdb_txn_t *txn);

/* Forgets all writes. After a commit: TDB_ERR_INVALID_ARGS; a second time: success. */
int tidesdb_txn_rollback(tidesdb_txn_t *txn);

/*
 * Begins again after a commit, a rollback or a conflict, with memory kept. Iterators of the transaction end.
 *
 *   TDB_ERR_INVALID_ARGS  it is not finished; a level that is not 0 to 4
 */
int tidesdb_txn_reset(tidesdb_txn_t *txn, tidesdb_isolation_level_t isolation);

/* Ends a transaction, rolled back unless it was committed, and its handle. NULL is allowed. Free its iterators first. */
void tidesdb_txn_free(tidesdb_txn_t *txn);

/* Marks the writes made so far under a name; the same name again moves the mark. */
int tidesdb_txn_savepoint(tidesdb_txn_t *txn, const char *name);

/*
 * Undoes the writes made since the mark, and removes it and the later ones. Reads stay recorded.
 *
 *   TDB_ERR_INVALID_ARGS  there are no marks
 *   TDB_ERR_NOT_FOUND     there is none of that name
 */
int tidesdb_txn_rollback_to_savepoint(tidesdb_txn_t *txn, const char *name);

/* Removes one mark; writes stay. Errors as tidesdb_txn_rollback_to_savepoint(). */
int tidesdb_txn_release_savepoint(tidesdb_txn_t *txn, const char *name);

/* ------------------------------------------------------------------------------------------------ iterators */

/*
 * Makes an iterator over what the transaction sees of a family now, its own writes included. Not positioned: seek first. It
 * stays as it is while the family changes. Free it with tidesdb_iter_free(), before its transaction: once that was freed or
 * reset, moves answer TDB_ERR_INVALID_ARGS.
 */
int tidesdb_iter_new(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, tidesdb_iter_t **iter);

/*
 * Goes to the first key at or after `key`, to the last at or before it, to the first, to the last.
 *
 *   TDB_ERR_NOT_FOUND     there is no such entry; the iterator is not positioned then
 *   TDB_ERR_INVALID_ARGS  an empty key
 */
int tidesdb_iter_seek(tidesdb_iter_t *iter, const uint8_t *key, size_t key_size);
int tidesdb_iter_seek_for_prev(tidesdb_iter_t *iter, const uint8_t *key, size_t key_size);
int tidesdb_iter_seek_to_first(tidesdb_iter_t *iter);
int tidesdb_iter_seek_to_last(tidesdb_iter_t *iter);

/*
 * Goes to the following and the preceding entry; the direction may change at any time.
 *
 *   TDB_ERR_NOT_FOUND     there is none; the iterator is not positioned then
 *   TDB_ERR_INVALID_ARGS  the iterator is not positioned
 */
int tidesdb_iter_next(tidesdb_iter_t *iter);
int tidesdb_iter_prev(tidesdb_iter_t *iter);

/* 1 while the iterator is on an entry, else 0 (also for a handle that is wrong). */
int tidesdb_iter_valid(tidesdb_iter_t *iter);

/*
 * Lends the key, the value, or both, until the iterator moves or is freed. Never NULL, also when empty.
 *
 *   TDB_ERR_INVALID_ARGS  the iterator is not positioned
 */
int tidesdb_iter_key(tidesdb_iter_t *iter, uint8_t **key, size_t *key_size);
int tidesdb_iter_value(tidesdb_iter_t *iter, uint8_t **value, size_t *value_size);
int tidesdb_iter_key_value(tidesdb_iter_t *iter, uint8_t **key, size_t *key_size, uint8_t **value, size_t *value_size);

/* Ends an iterator; NULL is allowed. */
void tidesdb_iter_free(tidesdb_iter_t *iter);

/* ------------------------------------------------------------------------------------------------ maintenance */

/* Begins to write the family's memtable to a table, and returns at once. Nothing in it: success. */
int tidesdb_flush_memtable(tidesdb_column_family_t *cf);

/* 1 while a flush (a merge) of the family is queued or running, else 0. */
int tidesdb_is_flushing(tidesdb_column_family_t *cf);
int tidesdb_is_compacting(tidesdb_column_family_t *cf);

/* Merges everything in the family to its last level; returns when that is done. */
int tidesdb_compact(tidesdb_column_family_t *cf);

/*
 * Merges the tables that overlap start to end, both included, down; returns when that is done. One of the keys may be NULL,
 * for no limit on that side.
 *
 *   TDB_ERR_INVALID_ARGS  both are NULL, or one has no bytes
 */
int tidesdb_compact_range(tidesdb_column_family_t *cf, const uint8_t *start_key, size_t start_key_size,
                          const uint8_t *end_key, size_t end_key_size);

/* Flushes and merges until nothing is left to do, for a family and for all; returns when that is done. */
int tidesdb_purge_cf(tidesdb_column_family_t *cf);
int tidesdb_purge(tidesdb_t *db);

/* Stops merges at their next checkpoint, for the rest of this opening; flushes go on. */
int tidesdb_cancel_background_work(tidesdb_t *db);

/* Forces the log to the device, in every sync mode: commits of all families that were acknowledged survive a power cut. */
int tidesdb_sync_wal(tidesdb_column_family_t *cf);

/*
 * Copies the database as it is at one moment during the call, everything committed before included, while it goes on
 * working. The result opens as a database. tidesdb_backup() copies all bytes; tidesdb_checkpoint() links tables where the
 * file system can.
 *
 *   TDB_ERR_INVALID_ARGS  the database's own directory or one of its folders, something that is not a directory
 *   TDB_ERR_EXISTS        a directory that is not empty
 */
int tidesdb_backup(tidesdb_t *db, char *dir);
int tidesdb_checkpoint(tidesdb_t *db, const char *checkpoint_dir);

/* ------------------------------------------------------------------------------------------------ statistics */

/* Statistics of a family; free them with tidesdb_free_stats(). `*stats` is NULL unless it succeeds. */
int tidesdb_get_stats(tidesdb_column_family_t *cf, tidesdb_stats_t **stats);

/* Frees statistics with all they point to; NULL is allowed. */
void tidesdb_free_stats(tidesdb_stats_t *stats);

/* Fills in a struct of the caller's. */
int tidesdb_get_db_stats(tidesdb_t *db, tidesdb_db_stats_t *stats);
int tidesdb_get_cache_stats(tidesdb_t *db, tidesdb_cache_stats_t *stats);

/* About how many keys the family has. */
int tidesdb_cf_estimate_cardinality(tidesdb_column_family_t *cf, uint64_t *out_estimate);

/*
 * What it costs to read everything between two keys, in either order: 0 for nothing, more for a wider range. Reads no data.
 */
int tidesdb_range_cost(tidesdb_column_family_t *cf, const uint8_t *key_a, size_t key_a_size, const uint8_t *key_b,
                       size_t key_b_size, double *cost);

/* ------------------------------------------------------------------------------------------------ object stores */

/*
 * Object stores are not supported by this version. Creating a connector returns NULL, tidesdb_open() with one
 * TDB_ERR_INVALID_ARGS, and so does tidesdb_promote_to_primary(); the reason is the last error and a line in the log.
 */
tidesdb_objstore_t *tidesdb_objstore_fs_create(const char *root_dir);
tidesdb_objstore_t *tidesdb_objstore_s3_create(const char *endpoint, const char *bucket, const char *prefix,
                                               const char *access_key, const char *secret_key, const char *region,
                                               int use_ssl, int use_path_style);
tidesdb_objstore_t *tidesdb_objstore_s3_create_config(const tidesdb_objstore_s3_config_t *config);
int tidesdb_promote_to_primary(tidesdb_t *db);

#ifdef __cplusplus
}
#endif

#endif
