/* Commit hooks: what they are told, in which order, and what they may do. */
#include <pthread.h>

#include "check.h"

typedef struct {
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    tidesdb_column_family_t *other;
    int calls;
    int operations;
    uint64_t last_seq;
    int out_of_order;
    int running;
    char told[256];
    int result;
} seen_t;

static int record(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx) {
    seen_t *seen = ctx;
    int index;

    CHECK(__atomic_fetch_add(&seen->running, 1, __ATOMIC_SEQ_CST) == 0);
    CHECK(num_ops > 0);
    seen->calls++;
    seen->operations += num_ops;
    if (commit_seq <= seen->last_seq) {
        seen->out_of_order++;
    }
    seen->last_seq = commit_seq;
    seen->told[0] = 0;
    for (index = 0; index < num_ops && index < 10; index++) {
        const tidesdb_commit_op_t *op = &ops[index];
        char line[64];

        snprintf(line, sizeof line, "%.*s%c%.*s;", (int)op->key_size, (const char *)op->key,
                 op->is_delete == 0 ? '=' : op->is_delete == 1 ? '-' : '~', (int)op->value_size,
                 op->value == NULL ? "" : (const char *)op->value);
        strcat(seen->told, line);
    }
    __atomic_fetch_sub(&seen->running, 1, __ATOMIC_SEQ_CST);
    return seen->result;
}

static void operations_as_made(tidesdb_t *db) {
    tidesdb_column_family_t *cf = family(db, "hooked"), *silent = family(db, "silent");
    tidesdb_txn_t *txn = begin(db);
    seen_t seen;

    memset(&seen, 0, sizeof seen);
    INVALID(tidesdb_cf_set_commit_hook(NULL, record, &seen));
    OK(tidesdb_cf_set_commit_hook(cf, record, &seen));
    OK(tidesdb_txn_put(txn, cf, BYTES("a"), BYTES("1"), 0));
    OK(tidesdb_txn_put(txn, cf, BYTES("a"), BYTES("2"), 0));
    OK(tidesdb_txn_delete(txn, cf, BYTES("b")));
    OK(tidesdb_txn_single_delete(txn, cf, BYTES("c")));
    OK(kt_txn_delete_range(txn, cf, BYTES("x"), BYTES("z")));
    OK(tidesdb_txn_put(txn, silent, BYTES("s"), BYTES("1"), 0));
    CHECK(seen.calls == 0);
    OK(tidesdb_txn_commit(txn));
    CHECK(seen.calls == 1 && seen.operations == 5);
    CHECK(strcmp(seen.told, "a=1;a=2;b-;c-;x~z;") == 0);
    put(db, silent, "s", "2");
    CHECK(seen.calls == 1);
    /* Its result changes nothing. */
    seen.result = 5;
    put(db, cf, "k", "v");
    CHECK(seen.calls == 2 && strcmp(seen.told, "k=v;") == 0);
    OK(tidesdb_cf_set_commit_hook(cf, NULL, NULL));
    put(db, cf, "k", "v");
    CHECK(seen.calls == 2 && seen.out_of_order == 0);
    /* A rolled back transaction is not told. */
    OK(tidesdb_cf_set_commit_hook(cf, record, &seen));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    OK(tidesdb_txn_put(txn, cf, BYTES("a"), BYTES("1"), 0));
    OK(tidesdb_txn_rollback(txn));
    CHECK(seen.calls == 2);
    tidesdb_txn_free(txn);
    OK(tidesdb_cf_set_commit_hook(cf, NULL, NULL));
}

static int write_inside(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx) {
    seen_t *seen = ctx;
    tidesdb_txn_t *txn = begin(seen->db);

    (void)ops;
    (void)num_ops;
    (void)commit_seq;
    seen->calls++;
    /* It is visible, other families may be written, its own may not; the database may not be closed. */
    check_value(txn, seen->cf, "k", "v");
    OK(tidesdb_txn_put(txn, seen->other, BYTES("copy"), BYTES("v"), 0));
    EXPECT(TDB_ERR_BUSY, tidesdb_txn_put(txn, seen->cf, BYTES("more"), BYTES("v"), 0));
    OK(tidesdb_txn_commit(txn));
    EXPECT(TDB_ERR_BUSY, tidesdb_close(seen->db));
    tidesdb_txn_free(txn);
    return 0;
}

static void writing_inside(tidesdb_t *db) {
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_txn_t *txn;
    tidesdb_stats_t *stats = NULL;
    seen_t seen;

    memset(&seen, 0, sizeof seen);
    seen.db = db;
    seen.other = family(db, "others");
    config.commit_hook_fn = write_inside;
    config.commit_hook_ctx = &seen;
    OK(tidesdb_create_column_family(db, "from the start", &config));
    seen.cf = family(db, "from the start");
    OK(tidesdb_get_stats(seen.cf, &stats));
    CHECK(stats->config->commit_hook_fn == write_inside && stats->config->commit_hook_ctx == &seen);
    tidesdb_free_stats(stats);
    put(db, seen.cf, "k", "v");
    CHECK(seen.calls == 1);
    txn = begin(db);
    check_value(txn, seen.other, "copy", "v");
    tidesdb_txn_free(txn);
}

#define THREADS 4
#define COMMITS 300

static void *commit_many(void *argument) {
    seen_t *seen = argument;
    int round;

    for (round = 0; round < COMMITS; round++) {
        put(seen->db, seen->cf, "shared", "v");
    }
    return NULL;
}

static void many_threads(tidesdb_t *db) {
    pthread_t threads[THREADS];
    seen_t seen;
    int index;

    memset(&seen, 0, sizeof seen);
    seen.db = db;
    seen.cf = family(db, "many");
    OK(tidesdb_cf_set_commit_hook(seen.cf, record, &seen));
    for (index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, commit_many, &seen) == 0);
    }
    for (index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(seen.calls == THREADS * COMMITS);
    CHECK(seen.out_of_order == 0);
}

int main(int argc, char **argv) {
    tidesdb_t *db;

    CHECK(argc == 2);
    db = open_at(argv[1]);
    operations_as_made(db);
    writing_inside(db);
    many_threads(db);
    OK(tidesdb_close(db));
    return 0;
}
