/* Backups and checkpoints. */
#include <sys/stat.h>

#include "check.h"

static void check_copy(const char *path) {
    tidesdb_t *copy = open_at(path);
    tidesdb_column_family_t *cf = tidesdb_get_column_family(copy, "f");
    tidesdb_txn_t *txn = begin(copy);

    CHECK(cf != NULL);
    check_value(txn, cf, "in a table", "1");
    check_value(txn, cf, "in memory", "2");
    check_missing(txn, cf, "later");
    tidesdb_txn_free(txn);
    put(copy, cf, "of the copy", "x");
    OK(tidesdb_close(copy));
}

int main(int argc, char **argv) {
    char *path, *copy, *link, *inside, *in_folder, *file, *full, *full_file;
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;

    CHECK(argc == 2);
    path = path_in(argv[1], "db");
    copy = path_in(argv[1], "copy");
    link = path_in(argv[1], "link");
    inside = path_in(path, "inside");
    in_folder = path_in(path, "klog/inside");
    file = path_in(argv[1], "file");
    full = path_in(argv[1], "full");
    full_file = path_in(full, "file");
    fclose(fopen(file, "w"));
    CHECK(mkdir(full, 0755) == 0);
    fclose(fopen(full_file, "w"));

    db = open_at(path);
    cf = family(db, "f");
    put(db, cf, "in a table", "1");
    OK(tidesdb_compact(cf));
    put(db, cf, "in memory", "2");

    INVALID(tidesdb_backup(NULL, copy));
    INVALID(tidesdb_backup(db, NULL));
    INVALID(tidesdb_checkpoint(NULL, copy));
    INVALID(tidesdb_checkpoint(db, NULL));
    INVALID(tidesdb_checkpoint(db, ""));
    INVALID(tidesdb_backup(db, path));
    INVALID(tidesdb_checkpoint(db, path));
    INVALID(tidesdb_checkpoint(db, in_folder));
    INVALID(tidesdb_backup(db, file));
    INVALID(tidesdb_checkpoint(db, file));
    EXPECT(TDB_ERR_EXISTS, tidesdb_backup(db, full));
    EXPECT(TDB_ERR_EXISTS, tidesdb_checkpoint(db, full));
    CHECK(mkdir(copy, 0755) == 0);
    OK(tidesdb_backup(db, copy));
    OK(tidesdb_checkpoint(db, link));
    /* Programs keep copies in the database's directory, under a name that is none of its own. */
    OK(tidesdb_checkpoint(db, inside));
    put(db, cf, "later", "3");
    check_copy(copy);
    check_copy(link);
    check_copy(inside);
    txn = begin(db);
    check_missing(txn, cf, "of the copy");
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
    db = open_at(path);
    OK(tidesdb_close(db));
    free(path);
    free(copy);
    free(link);
    free(inside);
    free(in_folder);
    free(file);
    free(full);
    free(full_file);
    return 0;
}
