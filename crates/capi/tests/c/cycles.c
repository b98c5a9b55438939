/*
 * Opens, uses and closes a database many times: no descriptor and no memory may be left behind.
 *
 *     cycles DIRECTORY COUNT
 */
#include <dirent.h>
#include <malloc.h>

#include "check.h"

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    CHECK(folder != NULL);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void cycle(const char *path, int round) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin_at(db, (tidesdb_isolation_level_t)(round % 5));
    tidesdb_iter_t *iter = NULL;
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t db_stats;
    kt_snapshot_t *snapshot = NULL;
    kt_abort_t *abort = NULL;
    char **names = NULL;
    char key[32];
    int count = 0, index;

    snprintf(key, sizeof key, "k%d", round % 50);
    OK(tidesdb_txn_savepoint(txn, "s"));
    OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES("value"), 0));
    check_value(txn, cf, key, "value");
    OK(tidesdb_iter_new(txn, cf, &iter));
    OK(tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
    OK(kt_txn_abort_handle(txn, &abort));
    kt_abort_free(abort);
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    OK(kt_snapshot_create(db, "s", &snapshot));
    kt_snapshot_free(snapshot);
    OK(tidesdb_get_stats(cf, &stats));
    tidesdb_free_stats(stats);
    OK(tidesdb_get_db_stats(db, &db_stats));
    OK(tidesdb_list_column_families(db, &names, &count));
    for (index = 0; index < count; index++) {
        free(names[index]);
    }
    free(names);
    if (round % 10 == 0) {
        family(db, "short-lived");
        OK(tidesdb_drop_column_family(db, "short-lived"));
    }
    /* Some are left to the end. */
    txn = begin(db);
    OK(tidesdb_iter_new(txn, cf, &iter));
    OK(tidesdb_close(db));
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

int main(int argc, char **argv) {
    int rounds, warm, round, descriptors_before = 0;
    size_t before = 0;
    char *path;

    CHECK(argc == 3);
    rounds = atoi(argv[2]);
    CHECK(rounds >= 50);
    warm = rounds / 5;
    path = path_in(argv[1], "db");
    for (round = 0; round < rounds; round++) {
        if (round == warm) {
            descriptors_before = descriptors();
            before = allocated();
        }
        cycle(path, round);
    }
    CHECK(descriptors() == descriptors_before);
    printf("%zu bytes before, %zu after %d cycles\n", before, allocated(), rounds - warm);
    /* Threads come and go, and the allocator keeps a little for each of its arenas. */
    CHECK(allocated() < before + (256U << 10));
    free(path);
    return 0;
}
