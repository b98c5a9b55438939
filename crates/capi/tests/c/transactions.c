/* Every call on transactions and iterators, with the edge cases that the interface promises. */
#include "check.h"

static void puts_and_gets(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn = begin(db);
    uint8_t *value = NULL;
    size_t size = 0;

    INVALID(tidesdb_txn_put(NULL, cf, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_txn_put(txn, NULL, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_txn_put(txn, cf, NULL, 1, BYTES("v"), 0));
    INVALID(tidesdb_txn_put(txn, cf, (const uint8_t *)"k", 0, BYTES("v"), 0));
    INVALID(tidesdb_txn_put(txn, cf, BYTES("k"), NULL, 1, 0));
    INVALID(tidesdb_txn_get(NULL, cf, BYTES("k"), &value, &size));
    INVALID(tidesdb_txn_get(txn, NULL, BYTES("k"), &value, &size));
    INVALID(tidesdb_txn_get(txn, cf, NULL, 1, &value, &size));
    INVALID(tidesdb_txn_get(txn, cf, BYTES(""), &value, &size));
    INVALID(tidesdb_txn_get(txn, cf, BYTES("k"), NULL, &size));
    INVALID(tidesdb_txn_get(txn, cf, BYTES("k"), &value, NULL));
    INVALID(tidesdb_txn_delete(NULL, cf, BYTES("k")));
    INVALID(tidesdb_txn_delete(txn, NULL, BYTES("k")));
    INVALID(tidesdb_txn_delete(txn, cf, NULL, 1));
    INVALID(tidesdb_txn_delete(txn, cf, BYTES("")));
    INVALID(tidesdb_txn_contains(NULL, cf, BYTES("k")));
    INVALID(tidesdb_txn_contains(txn, cf, NULL, 0));

    OK(tidesdb_txn_put(txn, cf, BYTES("a"), BYTES("1"), -1));
    OK(tidesdb_txn_put(txn, cf, BYTES("empty"), BYTES(""), 0));
    check_value(txn, cf, "a", "1");
    check_value(txn, cf, "empty", "");
    OK(tidesdb_txn_contains(txn, cf, BYTES("a")));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_contains(txn, cf, BYTES("b")));
    OK(tidesdb_txn_delete(txn, cf, BYTES("a")));
    check_missing(txn, cf, "a");
    OK(tidesdb_txn_delete(txn, cf, BYTES("never there")));
    OK(tidesdb_txn_put(txn, cf, BYTES("a"), BYTES("2"), 0));
    OK(tidesdb_txn_put(txn, cf, BYTES("past"), BYTES("x"), 1));
    check_missing(txn, cf, "past");
    OK(tidesdb_txn_put(txn, cf, BYTES("future"), BYTES("x"), time(NULL) + 1000));
    OK(tidesdb_txn_commit(txn));

    INVALID(tidesdb_txn_commit(txn));
    INVALID(tidesdb_txn_rollback(txn));
    INVALID(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_txn_get(txn, cf, BYTES("k"), &value, &size));
    INVALID(tidesdb_txn_delete(txn, cf, BYTES("k")));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    check_value(txn, cf, "a", "2");
    check_value(txn, cf, "empty", "");
    check_value(txn, cf, "future", "x");
    check_missing(txn, cf, "past");
    OK(tidesdb_txn_get_notrack(txn, cf, BYTES("a"), &value, &size));
    CHECK(size == 1 && value[0] == '2');
    tidesdb_free(value);
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_get_notrack(txn, cf, BYTES("nothing"), &value, &size));
    OK(tidesdb_txn_rollback(txn));
    OK(tidesdb_txn_rollback(txn));
    tidesdb_txn_free(txn);
}

static void single_deletes(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn;

    put(db, cf, "once", "1");
    txn = begin(db);
    INVALID(tidesdb_txn_single_delete(NULL, cf, BYTES("once")));
    INVALID(tidesdb_txn_single_delete(txn, cf, NULL, 0));
    OK(tidesdb_txn_single_delete(txn, cf, BYTES("once")));
    check_missing(txn, cf, "once");
    OK(tidesdb_txn_single_delete(txn, cf, BYTES("never there")));
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_missing(txn, cf, "once");
    tidesdb_txn_free(txn);
}

static void levels_and_resets(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn = (tidesdb_txn_t *)&cf;
    int level;

    INVALID(tidesdb_txn_begin(NULL, &txn));
    CHECK(txn == NULL);
    INVALID(tidesdb_txn_begin(db, NULL));
    INVALID(tidesdb_txn_begin_with_isolation(db, (tidesdb_isolation_level_t)5, &txn));
    INVALID(tidesdb_txn_begin_with_isolation(db, (tidesdb_isolation_level_t)-1, &txn));
    CHECK(txn == NULL);
    for (level = 0; level <= 4; level++) {
        txn = begin_at(db, (tidesdb_isolation_level_t)level);
        OK(tidesdb_txn_put(txn, cf, BYTES("level"), BYTES("x"), 0));
        INVALID(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
        INVALID(tidesdb_txn_reset(NULL, TDB_ISOLATION_SNAPSHOT));
        OK(tidesdb_txn_commit(txn));
        INVALID(tidesdb_txn_reset(txn, (tidesdb_isolation_level_t)5));
        OK(tidesdb_txn_reset(txn, (tidesdb_isolation_level_t)level));
        check_value(txn, cf, "level", "x");
        tidesdb_txn_free(txn);
    }
    INVALID(tidesdb_txn_commit(NULL));
    INVALID(tidesdb_txn_rollback(NULL));
    tidesdb_txn_free(NULL);
}

static void conflicts(tidesdb_t *db, tidesdb_column_family_t *cf) {
    int level;

    for (level = TDB_ISOLATION_READ_UNCOMMITTED; level <= TDB_ISOLATION_SERIALIZABLE; level++) {
        tidesdb_txn_t *txn = begin_at(db, (tidesdb_isolation_level_t)level);
        int is_validated = level >= TDB_ISOLATION_REPEATABLE_READ;

        OK(tidesdb_txn_put(txn, cf, BYTES("contended"), BYTES("mine"), 0));
        put(db, cf, "contended", "theirs");
        EXPECT((is_validated ? TDB_ERR_CONFLICT : TDB_SUCCESS), tidesdb_txn_commit(txn));
        if (is_validated) {
            CHECK(kt_last_error_kind() == KT_KIND_CONFLICT);
        }
        OK(tidesdb_txn_reset(txn, (tidesdb_isolation_level_t)level));
        check_value(txn, cf, "contended", is_validated ? "theirs" : "mine");
        OK(tidesdb_txn_put(txn, cf, BYTES("contended"), BYTES("again"), 0));
        OK(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
    }
}

static void check_entry(tidesdb_iter_t *iter, const char *key, const char *value) {
    uint8_t *found_key = NULL, *found_value = NULL;
    size_t key_size = 0, value_size = 0;

    CHECK(tidesdb_iter_valid(iter) == 1);
    OK(tidesdb_iter_key(iter, &found_key, &key_size));
    CHECK(key_size == strlen(key) && memcmp(found_key, key, key_size) == 0);
    OK(tidesdb_iter_value(iter, &found_value, &value_size));
    CHECK(found_value != NULL && value_size == strlen(value) && memcmp(found_value, value, value_size) == 0);
    found_key = NULL;
    found_value = NULL;
    OK(tidesdb_iter_key_value(iter, &found_key, &key_size, &found_value, &value_size));
    CHECK(key_size == strlen(key) && memcmp(found_key, key, key_size) == 0);
    CHECK(value_size == strlen(value) && memcmp(found_value, value, value_size) == 0);
}

static void check_nowhere(tidesdb_iter_t *iter) {
    uint8_t *bytes = NULL;
    size_t size = 0;

    CHECK(tidesdb_iter_valid(iter) == 0);
    INVALID(tidesdb_iter_next(iter));
    INVALID(tidesdb_iter_prev(iter));
    INVALID(tidesdb_iter_key(iter, &bytes, &size));
    INVALID(tidesdb_iter_value(iter, &bytes, &size));
    INVALID(tidesdb_iter_key_value(iter, &bytes, &size, &bytes, &size));
}

static void iterators(tidesdb_t *db) {
    tidesdb_column_family_t *cf = family(db, "iterated");
    tidesdb_txn_t *txn = begin(db);
    tidesdb_iter_t *iter = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;

    INVALID(tidesdb_iter_new(NULL, cf, &iter));
    INVALID(tidesdb_iter_new(txn, NULL, &iter));
    INVALID(tidesdb_iter_new(txn, cf, NULL));
    OK(tidesdb_iter_new(txn, cf, &iter));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_seek_to_first(iter));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_seek_to_last(iter));
    check_nowhere(iter);
    tidesdb_iter_free(iter);

    put(db, cf, "b", "2");
    put(db, cf, "d", "4");
    put(db, cf, "f", "");
    OK(tidesdb_flush_memtable(cf));
    put(db, cf, "h", "8");
    OK(tidesdb_txn_put(txn, cf, BYTES("c"), BYTES("own"), 0));
    OK(tidesdb_txn_delete(txn, cf, BYTES("d")));

    OK(tidesdb_iter_new(txn, cf, &iter));
    check_nowhere(iter);
    INVALID(tidesdb_iter_seek(NULL, BYTES("a")));
    INVALID(tidesdb_iter_seek(iter, NULL, 1));
    INVALID(tidesdb_iter_seek(iter, BYTES("")));
    INVALID(tidesdb_iter_seek_for_prev(iter, NULL, 1));
    INVALID(tidesdb_iter_seek_for_prev(iter, BYTES("")));
    INVALID(tidesdb_iter_seek_to_first(NULL));
    INVALID(tidesdb_iter_seek_to_last(NULL));
    INVALID(tidesdb_iter_next(NULL));
    INVALID(tidesdb_iter_prev(NULL));
    CHECK(tidesdb_iter_valid(NULL) == 0);
    OK(tidesdb_iter_seek_to_first(iter));
    check_entry(iter, "b", "2");
    INVALID(tidesdb_iter_key(iter, NULL, &size));
    INVALID(tidesdb_iter_key(iter, &bytes, NULL));
    INVALID(tidesdb_iter_value(iter, NULL, &size));
    INVALID(tidesdb_iter_value(iter, &bytes, NULL));
    INVALID(tidesdb_iter_key_value(iter, NULL, &size, &bytes, &size));
    INVALID(tidesdb_iter_key_value(iter, &bytes, &size, &bytes, NULL));
    OK(tidesdb_iter_next(iter));
    check_entry(iter, "c", "own");
    /* Stable while others write, flush and merge. */
    put(db, cf, "e", "later");
    OK(tidesdb_compact(cf));
    OK(tidesdb_iter_next(iter));
    check_entry(iter, "f", "");
    OK(tidesdb_iter_prev(iter));
    check_entry(iter, "c", "own");
    OK(tidesdb_iter_next(iter));
    OK(tidesdb_iter_next(iter));
    check_entry(iter, "h", "8");
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_next(iter));
    check_nowhere(iter);
    OK(tidesdb_iter_seek(iter, BYTES("c")));
    check_entry(iter, "c", "own");
    OK(tidesdb_iter_seek(iter, BYTES("cc")));
    check_entry(iter, "f", "");
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_seek(iter, BYTES("z")));
    check_nowhere(iter);
    OK(tidesdb_iter_seek_for_prev(iter, BYTES("z")));
    check_entry(iter, "h", "8");
    OK(tidesdb_iter_seek_for_prev(iter, BYTES("e")));
    check_entry(iter, "c", "own");
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_seek_for_prev(iter, BYTES("a")));
    check_nowhere(iter);
    OK(tidesdb_iter_seek_to_last(iter));
    check_entry(iter, "h", "8");
    OK(tidesdb_iter_seek_to_first(iter));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_iter_prev(iter));
    check_nowhere(iter);
    tidesdb_iter_free(iter);
    tidesdb_iter_free(NULL);
    tidesdb_txn_free(txn);
}

static void savepoints(tidesdb_t *db, tidesdb_column_family_t *cf) {
    tidesdb_txn_t *txn = begin(db);

    INVALID(tidesdb_txn_savepoint(NULL, "a"));
    INVALID(tidesdb_txn_savepoint(txn, NULL));
    INVALID(tidesdb_txn_savepoint(txn, ""));
    INVALID(tidesdb_txn_rollback_to_savepoint(txn, "a"));
    INVALID(tidesdb_txn_release_savepoint(txn, "a"));
    INVALID(tidesdb_txn_rollback_to_savepoint(NULL, "a"));
    INVALID(tidesdb_txn_release_savepoint(NULL, "a"));
    OK(tidesdb_txn_put(txn, cf, BYTES("s1"), BYTES("1"), 0));
    OK(tidesdb_txn_savepoint(txn, "a"));
    INVALID(tidesdb_txn_rollback_to_savepoint(txn, NULL));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_rollback_to_savepoint(txn, "b"));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_release_savepoint(txn, "b"));
    OK(tidesdb_txn_put(txn, cf, BYTES("s2"), BYTES("2"), 0));
    OK(tidesdb_txn_savepoint(txn, "b"));
    OK(tidesdb_txn_put(txn, cf, BYTES("s1"), BYTES("changed"), 0));
    OK(tidesdb_txn_savepoint(txn, "c"));
    OK(tidesdb_txn_put(txn, cf, BYTES("s3"), BYTES("3"), 0));
    OK(tidesdb_txn_rollback_to_savepoint(txn, "b"));
    check_value(txn, cf, "s1", "1");
    check_value(txn, cf, "s2", "2");
    check_missing(txn, cf, "s3");
    /* It is gone, and so are later ones. */
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_rollback_to_savepoint(txn, "b"));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_rollback_to_savepoint(txn, "c"));
    /* The same name moves it. */
    OK(tidesdb_txn_savepoint(txn, "a"));
    OK(tidesdb_txn_put(txn, cf, BYTES("s4"), BYTES("4"), 0));
    OK(tidesdb_txn_savepoint(txn, "d"));
    OK(tidesdb_txn_release_savepoint(txn, "d"));
    OK(tidesdb_txn_rollback_to_savepoint(txn, "a"));
    check_value(txn, cf, "s2", "2");
    check_missing(txn, cf, "s4");
    INVALID(tidesdb_txn_rollback_to_savepoint(txn, "a"));
    OK(tidesdb_txn_commit(txn));
    INVALID(tidesdb_txn_savepoint(txn, "a"));
    tidesdb_txn_free(txn);
}

int main(int argc, char **argv) {
    tidesdb_t *db;
    tidesdb_column_family_t *cf;

    CHECK(argc == 2);
    db = open_at(argv[1]);
    cf = family(db, "main");
    puts_and_gets(db, cf);
    single_deletes(db, cf);
    levels_and_resets(db, cf);
    conflicts(db, cf);
    iterators(db);
    savepoints(db, cf);
    OK(tidesdb_close(db));
    return 0;
}
