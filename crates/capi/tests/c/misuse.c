/* Wrong handles, wrong order, wrong thread, wrong process: an error each time, and nothing else. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void freed_handles(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin(db), *later;
    tidesdb_iter_t *iter = NULL, *orphan = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;

    put(db, cf, "k", "v");
    OK(tidesdb_iter_new(txn, cf, &iter));
    OK(tidesdb_iter_new(txn, cf, &orphan));
    OK(tidesdb_iter_seek_to_first(orphan));
    tidesdb_iter_free(iter);
    tidesdb_iter_free(iter);
    INVALID(tidesdb_iter_seek_to_first(iter));
    CHECK(kt_last_error_kind() == KT_KIND_BAD_HANDLE);
    tidesdb_txn_free(txn);
    tidesdb_txn_free(txn);
    INVALID(tidesdb_txn_commit(txn));
    INVALID(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_iter_new(txn, cf, &iter));
    CHECK(iter == NULL);
    /* An iterator that outlives its transaction. */
    INVALID(tidesdb_iter_next(orphan));
    INVALID(tidesdb_iter_key(orphan, &bytes, &size));
    CHECK(tidesdb_iter_valid(orphan) == 0);
    tidesdb_iter_free(orphan);

    /* Handles of the wrong kind, pointers to anything. */
    later = begin(db);
    CHECK(later != txn);
    INVALID(tidesdb_txn_commit((tidesdb_txn_t *)db));
    INVALID(tidesdb_txn_commit((tidesdb_txn_t *)&size));
    INVALID(tidesdb_txn_commit((tidesdb_txn_t *)(uintptr_t)8));
    INVALID(tidesdb_txn_put(later, (tidesdb_column_family_t *)later, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_close((tidesdb_t *)later));
    INVALID(tidesdb_close((tidesdb_t *)&size));
    tidesdb_txn_free((tidesdb_txn_t *)&size);
    tidesdb_iter_free((tidesdb_iter_t *)later);
    CHECK(tidesdb_get_column_family((tidesdb_t *)cf, "f") == NULL);
    OK(tidesdb_txn_put(later, cf, BYTES("k"), BYTES("v"), 0));

    /* After close. */
    OK(tidesdb_iter_new(later, cf, &iter));
    OK(tidesdb_iter_seek_to_first(iter));
    OK(tidesdb_close(db));
    INVALID(tidesdb_close(db));
    EXPECT(TDB_ERR_INVALID_DB, tidesdb_txn_commit(later));
    EXPECT(TDB_ERR_INVALID_DB, tidesdb_iter_next(iter));
    CHECK(tidesdb_iter_valid(iter) == 0);
    INVALID(tidesdb_txn_begin(db, &txn));
    CHECK(tidesdb_get_column_family(db, "f") == NULL);
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_flush_memtable(cf));
    tidesdb_txn_free(later);
    EXPECT(TDB_ERR_INVALID_DB, tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
}

static void handles_of_another_database(const char *path, const char *other_path) {
    tidesdb_t *db = open_at(path), *other = open_at(other_path);
    tidesdb_column_family_t *cf = family(db, "f"), *other_cf = family(other, "f");
    tidesdb_txn_t *txn = begin(db);
    tidesdb_iter_t *iter = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;

    INVALID(tidesdb_txn_put(txn, other_cf, BYTES("k"), BYTES("v"), 0));
    INVALID(tidesdb_txn_get(txn, other_cf, BYTES("k"), &bytes, &size));
    INVALID(tidesdb_iter_new(txn, other_cf, &iter));
    INVALID(tidesdb_delete_column_family(other, cf));
    OK(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    OK(tidesdb_close(other));
    OK(tidesdb_close(db));
}

static void huge_lengths(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin(db);
    tidesdb_iter_t *iter = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    const uint8_t byte = 'x';

    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_put(txn, cf, &byte, SIZE_MAX, BYTES("v"), 0));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_put(txn, cf, &byte, (1U << 20) + 1, BYTES("v"), 0));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_put(txn, cf, BYTES("k"), &byte, SIZE_MAX, 0));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_put(txn, cf, BYTES("k"), &byte, (1U << 30) + 1, 0));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_get(txn, cf, &byte, SIZE_MAX, &bytes, &size));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_txn_delete(txn, cf, &byte, SIZE_MAX / 2));
    OK(tidesdb_iter_new(txn, cf, &iter));
    EXPECT(TDB_ERR_TOO_LARGE, tidesdb_iter_seek(iter, &byte, SIZE_MAX));
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

typedef struct {
    tidesdb_txn_t *txn;
    tidesdb_column_family_t *cf;
    int refused;
    int done;
} shared_t;

static void *use_shared(void *argument) {
    shared_t *shared = argument;
    int round;

    for (round = 0; round < 20000; round++) {
        int code = tidesdb_txn_put(shared->txn, shared->cf, BYTES("k"), BYTES("v"), 0);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_BUSY);
        if (code == TDB_ERR_BUSY) {
            __atomic_fetch_add(&shared->refused, 1, __ATOMIC_RELAXED);
        } else {
            __atomic_fetch_add(&shared->done, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void two_threads_on_a_transaction(const char *path) {
    tidesdb_t *db = open_at(path);
    shared_t shared;
    pthread_t threads[4];
    int index;

    memset(&shared, 0, sizeof shared);
    shared.cf = family(db, "f");
    shared.txn = begin(db);
    for (index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, use_shared, &shared) == 0);
    }
    for (index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(shared.done + shared.refused == 4 * 20000);
    CHECK(shared.done > 0);
    OK(tidesdb_txn_rollback(shared.txn));
    tidesdb_txn_free(shared.txn);
    OK(tidesdb_close(db));
}

static void forked(const char *path, const char *other_path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin(db);
    pid_t child;
    int status = -1;

    OK(tidesdb_txn_put(txn, cf, BYTES("parent"), BYTES("v"), 0));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        tidesdb_t *own = NULL;
        tidesdb_txn_t *none = NULL;
        tidesdb_config_t config = tidesdb_default_config();

        EXPECT(TDB_ERR_INVALID_DB, tidesdb_txn_commit(txn));
        EXPECT(TDB_ERR_INVALID_DB, tidesdb_txn_put(txn, cf, BYTES("child"), BYTES("v"), 0));
        EXPECT(TDB_ERR_INVALID_DB, tidesdb_txn_begin(db, &none));
        EXPECT(TDB_ERR_INVALID_DB, tidesdb_flush_memtable(cf));
        EXPECT(TDB_ERR_INVALID_DB, tidesdb_close(db));
        CHECK(tidesdb_get_column_family(db, "f") == NULL);
        tidesdb_txn_free(txn);
        /* The parent has it. */
        config.db_path = (char *)(uintptr_t)path;
        EXPECT(TDB_ERR_LOCKED, tidesdb_open(&config, &own));
        /* A database of its own works. */
        own = open_at(other_path);
        put(own, family(own, "f"), "child", "v");
        OK(tidesdb_close(own));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_value(txn, cf, "parent", "v");
    check_missing(txn, cf, "child");
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

static void two_processes(const char *path) {
    int ready[2], status = -1;
    char byte = 0;
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    pid_t child;

    CHECK(pipe(ready) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        db = open_at(path);
        CHECK(write(ready[1], "o", 1) == 1);
        close(ready[1]);
        /* Until the parent has tried, and kills. */
        pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    EXPECT(TDB_ERR_LOCKED, tidesdb_open(&config, &db));
    CHECK(db == NULL);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    OK(tidesdb_open(&config, &db));
    OK(tidesdb_close(db));
    close(ready[0]);
    close(ready[1]);
}

int main(int argc, char **argv) {
    char *path, *other;

    CHECK(argc == 2);
    path = path_in(argv[1], "one");
    other = path_in(argv[1], "other");
    freed_handles(path);
    handles_of_another_database(path, other);
    huge_lengths(path);
    two_threads_on_a_transaction(path);
    forked(path, other);
    two_processes(path);
    free(path);
    free(other);
    return 0;
}
