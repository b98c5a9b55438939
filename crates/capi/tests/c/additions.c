/* kingtide.h: every function, with what it refuses. */
#include <pthread.h>

#include "check.h"

#include <tidesdb/db.h>

static void errors(tidesdb_t *db, tidesdb_column_family_t *cf) {
    const char *name = NULL;
    const uint8_t *key = NULL;
    size_t size = 0;
    tidesdb_txn_t *txn = begin_at(db, TDB_ISOLATION_SNAPSHOT);

    CHECK(strlen(kt_version()) > 0);
    kt_clear_last_error();
    CHECK(kt_last_error_code() == 0 && kt_last_error_kind() == KT_KIND_NONE);
    CHECK(strcmp(kt_last_error_message(), "") == 0);
    CHECK(kt_last_conflict(&name, &key, &size) == 0 && name == NULL && key == NULL);
    OK(tidesdb_txn_put(txn, cf, BYTES("fought over"), BYTES("1"), 0));
    put(db, cf, "fought over", "2");
    EXPECT(TDB_ERR_CONFLICT, tidesdb_txn_commit(txn));
    CHECK(kt_last_error_code() == TDB_ERR_CONFLICT && kt_last_error_kind() == KT_KIND_CONFLICT);
    CHECK(strstr(kt_last_error_message(), "fought over") != NULL);
    CHECK(kt_last_conflict(&name, &key, &size) == 1);
    CHECK(strcmp(name, "main") == 0 && size == 11 && memcmp(key, "fought over", 11) == 0);
    CHECK(kt_last_conflict(NULL, NULL, NULL) == 1);
    tidesdb_txn_free(txn);
    INVALID(tidesdb_txn_commit(txn));
    CHECK(kt_last_error_kind() == KT_KIND_BAD_HANDLE && kt_last_conflict(NULL, NULL, NULL) == 0);
    kt_log_text(TDB_LOG_DEBUG, NULL, 1, "not shown");
}

static void ranges(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn;
    char key[16];
    int index;

    txn = begin(db);
    for (index = 0; index < 100; index++) {
        snprintf(key, sizeof key, "r%02d", index);
        OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES("v"), 0));
    }
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    INVALID(kt_txn_delete_range(NULL, cf, BYTES("a"), BYTES("b")));
    INVALID(kt_txn_delete_range(txn, NULL, BYTES("a"), BYTES("b")));
    INVALID(kt_txn_delete_range(txn, cf, NULL, 1, BYTES("b")));
    INVALID(kt_txn_delete_range(txn, cf, BYTES("a"), NULL, 1));
    INVALID(kt_txn_delete_range(txn, cf, BYTES("b"), BYTES("a")));
    INVALID(kt_txn_delete_prefix(txn, cf, BYTES("")));
    INVALID(kt_txn_delete_prefix(NULL, cf, BYTES("r")));
    OK(kt_txn_delete_range(txn, cf, BYTES("r10"), BYTES("r20")));
    OK(kt_txn_delete_range(txn, cf, BYTES("r30"), BYTES("r30")));
    OK(kt_txn_delete_prefix(txn, cf, BYTES("r4")));
    check_missing(txn, cf, "r10");
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_value(txn, cf, "r09", "v");
    check_missing(txn, cf, "r10");
    check_missing(txn, cf, "r19");
    check_value(txn, cf, "r20", "v");
    check_value(txn, cf, "r30", "v");
    check_missing(txn, cf, "r45");
    tidesdb_txn_free(txn);
}

static void many_reads(tidesdb_t *db, tidesdb_column_family_t *cf) {
    const uint8_t *keys[3] = {(const uint8_t *)"m1", (const uint8_t *)"none", (const uint8_t *)"m2"};
    size_t key_sizes[3] = {2, 4, 2}, value_sizes[3] = {9, 9, 9};
    uint8_t *values[3] = {NULL, NULL, NULL};
    tidesdb_txn_t *txn = begin(db);
    int index;

    put(db, cf, "m1", "one");
    put(db, cf, "m2", "");
    INVALID(kt_txn_multi_get(txn, cf, 3, NULL, key_sizes, values, value_sizes));
    INVALID(kt_txn_multi_get(txn, cf, 3, keys, NULL, values, value_sizes));
    INVALID(kt_txn_multi_get(txn, cf, 3, keys, key_sizes, NULL, value_sizes));
    INVALID(kt_txn_multi_get(txn, cf, 3, keys, key_sizes, values, NULL));
    INVALID(kt_txn_multi_get(txn, cf, SIZE_MAX, keys, key_sizes, values, value_sizes));
    OK(kt_txn_multi_get(txn, cf, 0, NULL, NULL, NULL, NULL));
    OK(kt_txn_multi_get(txn, cf, 3, keys, key_sizes, values, value_sizes));
    CHECK(value_sizes[0] == 3 && memcmp(values[0], "one", 3) == 0);
    CHECK(value_sizes[1] == 0 && values[1] == NULL);
    CHECK(value_sizes[2] == 0 && values[2] != NULL);
    for (index = 0; index < 3; index++) {
        free(values[index]);
    }
    tidesdb_txn_free(txn);
}

static void updates(tidesdb_t *db, tidesdb_column_family_t *cf) {
    kt_txn_options_t options = KT_TXN_OPTIONS_INIT;
    tidesdb_txn_t *one = NULL, *two = NULL;
    uint8_t *value = NULL;
    size_t size = 0;

    put(db, cf, "counter", "0");
    OK(kt_txn_begin(db, NULL, &one));
    options.sync_mode = TDB_SYNC_FULL;
    OK(kt_txn_begin(db, &options, &two));
    OK(kt_txn_get_for_update(one, cf, BYTES("counter"), &value, &size));
    free(value);
    OK(kt_txn_get_for_update(two, cf, BYTES("counter"), &value, &size));
    free(value);
    EXPECT(TDB_ERR_NOT_FOUND, kt_txn_get_for_update(two, cf, BYTES("no such"), &value, &size));
    OK(tidesdb_txn_put(one, cf, BYTES("counter"), BYTES("1"), 0));
    OK(tidesdb_txn_put(two, cf, BYTES("counter"), BYTES("1"), 0));
    OK(tidesdb_txn_commit(one));
    EXPECT(TDB_ERR_CONFLICT, tidesdb_txn_commit(two));
    tidesdb_txn_free(one);
    tidesdb_txn_free(two);

    INVALID(kt_txn_begin(NULL, NULL, &one));
    INVALID(kt_txn_begin(db, NULL, NULL));
    options.sync_mode = 7;
    INVALID(kt_txn_begin(db, &options, &one));
    options.sync_mode = TDB_SYNC_INTERVAL;
    INVALID(kt_txn_begin(db, &options, &one));
    options.sync_mode = KT_SYNC_OF_FAMILIES;
    options.isolation = 5;
    INVALID(kt_txn_begin(db, &options, &one));
    options.isolation = 1;
    options.size = 3;
    INVALID(kt_txn_begin(db, &options, &one));
    options.size = SIZE_MAX;
    INVALID(kt_txn_begin(db, &options, &one));
    /* An older, shorter struct. */
    options.size = offsetof(kt_txn_options_t, sync_interval_us);
    OK(kt_txn_begin(db, &options, &one));
    tidesdb_txn_free(one);
}

/* A struct from the future: refused when it asks for something, taken when it does not. */
static void options_from_the_future(tidesdb_t *db) {
    struct {
        kt_txn_options_t known;
        uint64_t unknown;
    } options;
    kt_txn_options_t known = KT_TXN_OPTIONS_INIT;
    tidesdb_txn_t *txn = NULL;

    memset(&options, 0, sizeof options);
    options.known = known;
    options.known.size = sizeof options;
    OK(kt_txn_begin(db, &options.known, &txn));
    tidesdb_txn_free(txn);
    options.unknown = 1;
    INVALID(kt_txn_begin(db, &options.known, &txn));
}

static void snapshots(tidesdb_t *db, tidesdb_column_family_t *cf, const char *other_path) {
    kt_snapshot_t *snapshot = NULL, *found = NULL;
    kt_txn_options_t options = KT_TXN_OPTIONS_INIT;
    tidesdb_txn_t *txn = NULL, *second = NULL;
    tidesdb_t *other;

    INVALID(kt_snapshot_create(NULL, NULL, &snapshot));
    INVALID(kt_snapshot_create(db, NULL, NULL));
    INVALID(kt_snapshot_create(db, "", &snapshot));
    put(db, cf, "seen", "before");
    OK(kt_snapshot_create(db, "audit", &snapshot));
    EXPECT(TDB_ERR_EXISTS, kt_snapshot_create(db, "audit", &found));
    OK(kt_snapshot_find(db, "audit", &found));
    kt_snapshot_free(found);
    EXPECT(TDB_ERR_NOT_FOUND, kt_snapshot_find(db, "nothing", &found));
    CHECK(found == NULL);
    OK(kt_snapshot_find(db, "audit", &found));
    CHECK(found != snapshot && kt_snapshot_sequence(found) == kt_snapshot_sequence(snapshot));
    put(db, cf, "seen", "after");
    options.snapshot = snapshot;
    INVALID(kt_txn_begin(db, &options, &txn));
    options.isolation = TDB_ISOLATION_SNAPSHOT;
    OK(kt_txn_begin(db, &options, &txn));
    options.snapshot = found;
    OK(kt_txn_begin(db, &options, &second));
    check_value(txn, cf, "seen", "before");
    check_value(second, cf, "seen", "before");
    OK(tidesdb_txn_put(second, cf, BYTES("seen"), BYTES("mine"), 0));
    EXPECT(TDB_ERR_CONFLICT, tidesdb_txn_commit(second));
    tidesdb_txn_free(second);
    other = open_at(other_path);
    INVALID(kt_txn_begin(other, &options, &second));
    OK(tidesdb_close(other));
    kt_snapshot_free(snapshot);
    kt_snapshot_free(found);
    kt_snapshot_free(found);
    kt_snapshot_free(NULL);
    CHECK(kt_snapshot_sequence(found) == 0);
    INVALID(kt_txn_begin(db, &options, &second));
    check_value(txn, cf, "seen", "before");
    tidesdb_txn_free(txn);
    EXPECT(TDB_ERR_NOT_FOUND, kt_snapshot_find(db, "audit", &found));
}

static void *abort_it(void *abort) {
    OK(kt_abort(abort));
    return NULL;
}

static void aborts(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn = begin_at(db, TDB_ISOLATION_SNAPSHOT);
    kt_txn_options_t options = KT_TXN_OPTIONS_INIT;
    kt_abort_t *abort = NULL;
    pthread_t thread;

    INVALID(kt_txn_abort_handle(NULL, &abort));
    INVALID(kt_txn_abort_handle(txn, NULL));
    INVALID(kt_abort(NULL));
    OK(kt_txn_abort_handle(txn, &abort));
    OK(tidesdb_txn_put(txn, cf, BYTES("aborted"), BYTES("v"), 0));
    CHECK(pthread_create(&thread, NULL, abort_it, abort) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    INVALID(tidesdb_txn_commit(txn));
    CHECK(kt_last_error_kind() == KT_KIND_ABORTED);
    OK(tidesdb_txn_rollback(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    check_missing(txn, cf, "aborted");
    tidesdb_txn_free(txn);
    OK(kt_abort(abort));
    kt_abort_free(abort);
    INVALID(kt_abort(abort));
    kt_abort_free(NULL);
    options.timeout_us = 1;
    OK(kt_txn_begin(db, &options, &txn));
    while (tidesdb_txn_put(txn, cf, BYTES("late"), BYTES("v"), 0) == TDB_SUCCESS) {
    }
    CHECK(kt_last_error_kind() == KT_KIND_ABORTED);
    tidesdb_txn_free(txn);
}

static void bounds(tidesdb_t *db, tidesdb_column_family_t *cf) {
    kt_iter_options_t options = KT_ITER_OPTIONS_INIT;
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL;
    size_t size = 0;
    time_t ttl = -1, later = time(NULL) + 500;

    txn = begin(db);
    OK(tidesdb_txn_put(txn, cf, BYTES("p1"), BYTES("1"), 0));
    OK(tidesdb_txn_put(txn, cf, BYTES("p2"), BYTES("2"), later));
    OK(tidesdb_txn_put(txn, cf, BYTES("q1"), BYTES("3"), 0));
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    options.prefix = (const uint8_t *)"p";
    options.prefix_size = 1;
    INVALID(kt_iter_new(NULL, cf, &options, &iter));
    INVALID(kt_iter_new(txn, NULL, &options, &iter));
    INVALID(kt_iter_new(txn, cf, &options, NULL));
    OK(kt_iter_new(txn, cf, &options, &iter));
    INVALID(kt_iter_expires_at(iter, &ttl));
    OK(tidesdb_iter_seek_to_last(iter));
    OK(tidesdb_iter_key(iter, &key, &size));
    CHECK(size == 2 && memcmp(key, "p2", 2) == 0);
    INVALID(kt_iter_expires_at(iter, NULL));
    OK(kt_iter_expires_at(iter, &ttl));
    CHECK(ttl == later);
    OK(tidesdb_iter_prev(iter));
    OK(kt_iter_expires_at(iter, &ttl));
    CHECK(ttl == 0);
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_prev(iter));
    tidesdb_iter_free(iter);
    options.prefix_size = 0;
    options.lower = (const uint8_t *)"p2";
    options.lower_size = 2;
    options.upper = (const uint8_t *)"q1";
    options.upper_size = 2;
    OK(kt_iter_new(txn, cf, &options, &iter));
    OK(tidesdb_iter_seek_to_first(iter));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_next(iter));
    tidesdb_iter_free(iter);
    options.size = 1;
    INVALID(kt_iter_new(txn, cf, &options, &iter));
    CHECK(iter == NULL);
    OK(kt_iter_new(txn, cf, NULL, &iter));
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

static void two_phases(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin(db);
    kt_prepared_t *list = NULL;
    size_t count = 9;
    uint8_t xid[200];

    memset(xid, 'x', sizeof xid);
    OK(kt_recover_prepared(db, &list, &count));
    CHECK(count == 0);
    kt_free_prepared(list, count);
    kt_free_prepared(NULL, 0);
    OK(tidesdb_txn_put(txn, cf, BYTES("one"), BYTES("1"), 0));
    INVALID(kt_txn_prepare(NULL, BYTES("x")));
    INVALID(kt_txn_prepare(txn, NULL, 1));
    INVALID(kt_txn_prepare(txn, BYTES("")));
    EXPECT(TDB_ERR_TOO_LARGE, kt_txn_prepare(txn, xid, 129));
    OK(kt_txn_prepare(txn, BYTES("first")));
    INVALID(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_missing(txn, cf, "one");
    OK(tidesdb_txn_put(txn, cf, BYTES("one"), BYTES("other"), 0));
    EXPECT(TDB_ERR_CONFLICT, tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    OK(tidesdb_txn_put(txn, cf, BYTES("two"), BYTES("2"), 0));
    EXPECT(TDB_ERR_EXISTS, kt_txn_prepare(txn, BYTES("first")));
    tidesdb_txn_free(txn);
    txn = begin(db);
    OK(tidesdb_txn_put(txn, cf, BYTES("two"), BYTES("2"), 0));
    OK(kt_txn_prepare(txn, xid, 128));
    EXPECT(TDB_ERR_BUSY, tidesdb_drop_column_family(db, "f"));
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));

    db = open_at(path);
    cf = family(db, "f");
    INVALID(kt_recover_prepared(NULL, &list, &count));
    INVALID(kt_recover_prepared(db, NULL, &count));
    INVALID(kt_recover_prepared(db, &list, NULL));
    OK(kt_recover_prepared(db, &list, &count));
    CHECK(count == 2 && list != NULL);
    CHECK(list[0].operation_count == 1 && list[0].family_count == 1);
    CHECK(strcmp(list[0].families[0], "f") == 0);
    CHECK(list[0].xid_size + list[1].xid_size == 5 + 128);
    kt_free_prepared(list, count);
    EXPECT(TDB_ERR_NOT_FOUND, kt_commit_prepared(db, BYTES("nobody")));
    EXPECT(TDB_ERR_NOT_FOUND, kt_rollback_prepared(db, BYTES("nobody")));
    INVALID(kt_commit_prepared(NULL, BYTES("first")));
    INVALID(kt_commit_prepared(db, NULL, 5));
    INVALID(kt_rollback_prepared(db, BYTES("")));
    OK(kt_commit_prepared(db, BYTES("first")));
    OK(kt_rollback_prepared(db, xid, 128));
    EXPECT(TDB_ERR_NOT_FOUND, kt_commit_prepared(db, BYTES("first")));
    txn = begin(db);
    check_value(txn, cf, "one", "1");
    check_missing(txn, cf, "two");
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

typedef struct {
    int opened, closed, flushed, messages, refused;
    tidesdb_t *db;
} told_t;

static void tell(const kt_event_t *event, void *ctx) {
    told_t *told = ctx;

    CHECK(event->size >= sizeof *event && event->text != NULL && strlen(event->text) > 0);
    CHECK(event->unix_micros > 0 && event->level >= TDB_LOG_DEBUG && event->level <= TDB_LOG_FATAL);
    told->opened += event->kind == KT_EVENT_OPENED;
    told->closed += event->kind == KT_EVENT_CLOSED;
    if (event->kind == KT_EVENT_FLUSH_END) {
        CHECK(strcmp(event->family, "f") == 0 && event->bytes > 0 && event->tables == 1);
        told->flushed++;
    }
    if (event->kind == KT_EVENT_MESSAGE) {
        CHECK(strstr(event->text, "made with 5 arguments") != NULL);
        told->messages++;
        told->refused += tidesdb_close(told->db) == TDB_ERR_BUSY;
    }
}

static void events(const char *path) {
    kt_open_options_t options = KT_OPEN_OPTIONS_INIT;
    tidesdb_config_t config = tidesdb_default_config();
    told_t told = {0, 0, 0, 0, 0, NULL};
    char *log = path_in(path, "LOG"), line[4096];
    tidesdb_column_family_t *cf;
    FILE *file;
    int lines = 0, messages = 0;

    config.db_path = (char *)(uintptr_t)path;
    config.log_to_file = 1;
    options.event_fn = tell;
    options.event_ctx = &told;
    OK(kt_open(&config, &options, &told.db));
    cf = family(told.db, "f");
    put(told.db, cf, "k", "v");
    OK(tidesdb_compact(cf));
    tidesdb_log_write(TDB_LOG_WARN, "file.c", 7, "made with %d arguments: %s %c %.1f %ld", 5, "text", 'c', 1.5, 9L);
    tidesdb_log_write(TDB_LOG_DEBUG, NULL, 7, "made with 5 arguments");
    tidesdb_log_write(TDB_LOG_WARN, NULL, 7, NULL);
    OK(tidesdb_close(told.db));
    CHECK(told.opened == 1 && told.closed == 1 && told.flushed == 1);
    CHECK(told.messages == 2 && told.refused == 2);
    file = fopen(log, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        lines++;
        messages += strstr(line, "file.c:7: made with 5 arguments: text c 1.5 9") != NULL;
    }
    fclose(file);
    CHECK(lines >= 3 && messages == 1);
    free(log);
}

static int progress_calls = 0;

static void progress(uint64_t done, uint64_t all, void *ctx) {
    CHECK(done <= all);
    /* A call that would wait. */
    EXPECT(TDB_ERR_BUSY, tidesdb_close((tidesdb_t *)ctx));
    progress_calls++;
}

/* Nothing is queued or running afterwards. */
static void rest(tidesdb_t *db, tidesdb_column_family_t *cf) {
    OK(tidesdb_flush_memtable(cf));
    OK(kt_wait_idle(db));
    CHECK(tidesdb_is_flushing(cf) == 0 && tidesdb_is_compacting(cf) == 0);
    INVALID(kt_wait_idle(NULL));
}

static void verification(tidesdb_t *db, tidesdb_column_family_t *cf) {
    size_t damaged = 99;

    OK(tidesdb_compact(cf));
    INVALID(kt_verify(NULL, NULL, NULL, NULL, &damaged));
    OK(kt_verify(db, progress, NULL, db, &damaged));
    CHECK(damaged == 0 && progress_calls > 0);
    OK(kt_verify(db, NULL, NULL, NULL, NULL));
}

static int backwards(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx) {
    (void)ctx;
    return tidesdb_comparator_reverse_memcmp(key1, key1_size, key2, key2_size, NULL);
}

typedef struct {
    tidesdb_t *db;
    tidesdb_txn_t *txn;
    tidesdb_column_family_t *cf;
    int calls;
} nosy_t;

/* A comparator that calls back: refused where it could wait for itself. */
static int nosy(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx) {
    nosy_t *nosy = ctx;

    if (nosy->txn != NULL) {
        nosy->calls++;
        EXPECT(TDB_ERR_BUSY, tidesdb_txn_commit(nosy->txn));
        EXPECT(TDB_ERR_BUSY, tidesdb_txn_put(nosy->txn, nosy->cf, BYTES("k"), BYTES("v"), 0));
        EXPECT(TDB_ERR_BUSY, tidesdb_flush_memtable(nosy->cf));
        EXPECT(TDB_ERR_BUSY, tidesdb_close(nosy->db));
    }
    return tidesdb_comparator_memcmp(key1, key1_size, key2, key2_size, NULL);
}

static void opening(const char *path) {
    nosy_t context = {NULL, NULL, NULL, 0};
    kt_comparator_t orders[2] = {{"backwards", backwards, "as text", NULL}, {"nosy", nosy, NULL, &context}};
    kt_open_options_t options = KT_OPEN_OPTIONS_INIT;
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t settings = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_comparator_fn compare = NULL;
    tidesdb_stats_t *stats = NULL;
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL;
    size_t size = 0;

    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    options.must_exist = 1;
    EXPECT(TDB_ERR_NOT_FOUND, kt_open(&config, &options, &db));
    options.must_exist = 0;
    options.comparators = orders;
    options.comparator_count = SIZE_MAX;
    INVALID(kt_open(&config, &options, &db));
    options.comparator_count = 2;
    INVALID(kt_open(NULL, &options, &db));
    INVALID(kt_open(&config, &options, NULL));
    orders[1].name = "backwards";
    INVALID(kt_open(&config, &options, &db));
    orders[1].name = "memcmp";
    INVALID(kt_open(&config, &options, &db));
    orders[1].name = "nosy";
    OK(kt_open(&config, &options, &db));
    OK(tidesdb_get_comparator(db, "backwards", &compare, NULL));
    CHECK(compare == backwards);
    strcpy(settings.comparator_name, "backwards");
    OK(tidesdb_create_column_family(db, "b", &settings));
    cf = family(db, "b");
    OK(tidesdb_get_stats(cf, &stats));
    CHECK(strcmp(stats->config->comparator_name, "backwards") == 0);
    CHECK(strcmp(stats->config->comparator_ctx_str, "as text") == 0);
    tidesdb_free_stats(stats);
    put(db, cf, "a", "1");
    put(db, cf, "b", "2");
    txn = begin(db);
    OK(tidesdb_iter_new(txn, cf, &iter));
    OK(tidesdb_iter_seek_to_first(iter));
    OK(tidesdb_iter_key(iter, &key, &size));
    CHECK(size == 1 && key[0] == 'b');
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);

    strcpy(settings.comparator_name, "nosy");
    OK(tidesdb_create_column_family(db, "n", &settings));
    context.db = db;
    context.cf = family(db, "n");
    put(db, context.cf, "a", "1");
    put(db, context.cf, "b", "2");
    txn = begin(db);
    context.txn = txn;
    check_value(txn, context.cf, "b", "2");
    CHECK(context.calls > 0);
    context.txn = NULL;
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));

    options.read_only = 1;
    OK(kt_open(&config, &options, &db));
    txn = begin(db);
    check_value(txn, tidesdb_get_column_family(db, "b"), "a", "1");
    EXPECT(TDB_ERR_READONLY, tidesdb_txn_put(txn, tidesdb_get_column_family(db, "b"), BYTES("k"), BYTES("v"), 0));
    EXPECT(TDB_ERR_READONLY, tidesdb_drop_column_family(db, "b"));
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

int main(int argc, char **argv) {
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    char *path, *other;

    CHECK(argc == 2);
    path = path_in(argv[1], "one");
    other = path_in(argv[1], "other");
    db = open_at(path);
    cf = family(db, "main");
    errors(db, cf);
    ranges(db, cf);
    many_reads(db, cf);
    updates(db, cf);
    options_from_the_future(db);
    snapshots(db, cf, other);
    aborts(db, cf);
    bounds(db, cf);
    rest(db, cf);
    verification(db, cf);
    OK(tidesdb_close(db));
    free(path);
    path = path_in(argv[1], "ordered");
    opening(path);
    free(path);
    path = path_in(argv[1], "prepared");
    two_phases(path);
    free(path);
    path = path_in(argv[1], "told");
    events(path);
    free(path);
    free(other);
    return 0;
}
