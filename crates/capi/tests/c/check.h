/* What the C tests share: checks that say where they failed, and the first steps of every test. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidesdb/tidesdb.h>
#include <kingtide.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: failed: %s (last error: %s)\n", __FILE__, __LINE__, #condition,   \
                    kt_last_error_message());                                                         \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

/* Checks a code, and shows the one that came instead. */
#define EXPECT(code, call)                                                                             \
    do {                                                                                               \
        int got_ = (call);                                                                             \
        if (got_ != (code)) {                                                                          \
            fprintf(stderr, "%s:%d: %s answered %d and not " #code " (last error: %s)\n", __FILE__,    \
                    __LINE__, #call, got_, kt_last_error_message());                                   \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

#define OK(call) EXPECT(TDB_SUCCESS, call)
#define INVALID(call) EXPECT(TDB_ERR_INVALID_ARGS, call)

/* A string literal or C string as key or value. */
#define BYTES(text) ((const uint8_t *)(text)), strlen(text)

static inline tidesdb_t *open_at(const char *path) {
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    OK(tidesdb_open(&config, &db));
    CHECK(db != NULL);
    return db;
}

static inline tidesdb_column_family_t *family(tidesdb_t *db, const char *name) {
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, name);
    if (cf == NULL) {
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        OK(tidesdb_create_column_family(db, name, &config));
        cf = tidesdb_get_column_family(db, name);
    }
    CHECK(cf != NULL);
    return cf;
}

static inline tidesdb_txn_t *begin(tidesdb_t *db) {
    tidesdb_txn_t *txn = NULL;
    OK(tidesdb_txn_begin(db, &txn));
    CHECK(txn != NULL);
    return txn;
}

static inline tidesdb_txn_t *begin_at(tidesdb_t *db, tidesdb_isolation_level_t level) {
    tidesdb_txn_t *txn = NULL;
    OK(tidesdb_txn_begin_with_isolation(db, level, &txn));
    CHECK(txn != NULL);
    return txn;
}

/* One put in a transaction of its own. */
static inline void put(tidesdb_t *db, tidesdb_column_family_t *cf, const char *key, const char *value) {
    tidesdb_txn_t *txn = begin(db);
    OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES(value), 0));
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

static inline void check_value(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key, const char *value) {
    uint8_t *found = NULL;
    size_t size = 0;
    OK(tidesdb_txn_get(txn, cf, BYTES(key), &found, &size));
    CHECK(found != NULL);
    CHECK(size == strlen(value));
    CHECK(memcmp(found, value, size) == 0);
    free(found);
}

static inline void check_missing(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key) {
    uint8_t *found = NULL;
    size_t size = 0;
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_get(txn, cf, BYTES(key), &found, &size));
    CHECK(found == NULL);
}

/* A path in the directory of the test, for the caller to free. */
static inline char *path_in(const char *directory, const char *name) {
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    CHECK(path != NULL);
    snprintf(path, size, "%s/%s", directory, name);
    return path;
}

#endif
