/*
 * A program written for libtidesdb, and for C++ as well as C: opens, writes, reads, iterates, closes. With KINGTIDE defined
 * it uses an addition of kingtide.h too. Ends with a number that says which check failed.
 */
#ifdef KINGTIDE
#include <kingtide.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidesdb/db.h>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

int main(int count, char **arguments) {
    CHECK(count == 2);
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_NONE;
    tidesdb_t *db = NULL;
    CHECK(tidesdb_open(&config, &db) == TDB_SUCCESS);
    tidesdb_column_family_config_t settings = tidesdb_default_column_family_config();
    CHECK(tidesdb_create_column_family(db, "ports", &settings) == TDB_SUCCESS);
    tidesdb_column_family_t *ports = tidesdb_get_column_family(db, "ports");
    CHECK(ports != NULL);

    tidesdb_txn_t *txn = NULL;
    CHECK(tidesdb_txn_begin(db, &txn) == TDB_SUCCESS);
    CHECK(tidesdb_txn_put(txn, ports, bytes("brest"), 5, bytes("12"), 2, 0) == TDB_SUCCESS);
    CHECK(tidesdb_txn_put(txn, ports, bytes("cadiz"), 5, bytes("34"), 2, 0) == TDB_SUCCESS);
    CHECK(tidesdb_txn_commit(txn) == TDB_SUCCESS);
    CHECK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT) == TDB_SUCCESS);

    uint8_t *value = NULL;
    size_t size = 0;
    CHECK(tidesdb_txn_get(txn, ports, bytes("cadiz"), 5, &value, &size) == TDB_SUCCESS);
    CHECK(size == 2 && memcmp(value, "34", 2) == 0);
    free(value);
    tidesdb_iter_t *iter = NULL;
    CHECK(tidesdb_iter_new(txn, ports, &iter) == TDB_SUCCESS);
    CHECK(tidesdb_iter_seek_to_first(iter) == TDB_SUCCESS);
    uint8_t *key = NULL;
    CHECK(tidesdb_iter_key_value(iter, &key, &size, &value, &size) == TDB_SUCCESS);
    CHECK(memcmp(key, "brest", 5) == 0);
    tidesdb_iter_free(iter);
#ifdef KINGTIDE
    CHECK(kt_version()[0] != '\0');
    CHECK(kt_txn_delete_prefix(txn, ports, bytes("ca"), 2) == TDB_SUCCESS);
    CHECK(tidesdb_txn_contains(txn, ports, bytes("cadiz"), 5) == TDB_ERR_NOT_FOUND);
#endif
    tidesdb_txn_free(txn);
    CHECK(tidesdb_close(db) == TDB_SUCCESS);
    printf("%s, libtidesdb %s\n", __FILE__, TIDESDB_VERSION);
    return 0;
}
