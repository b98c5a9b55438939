/* Codes that come from the world: damaged files, no memory, a full device, a transaction that holds too much. */
#include <dirent.h>

#include "check.h"

static int fails = 0;

static void *failing_malloc(size_t size) { return fails ? NULL : malloc(size); }

static void no_memory(const char *path) {
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_stats_t *stats = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    char **names = NULL;
    int count = 0;

    CHECK(tidesdb_init(failing_malloc, calloc, realloc, free) == 0);
    db = open_at(path);
    cf = family(db, "f");
    put(db, cf, "k", "v");
    txn = begin(db);
    fails = 1;
    EXPECT(TDB_ERR_MEMORY, tidesdb_txn_get(txn, cf, BYTES("k"), &value, &size));
    CHECK(value == NULL && kt_last_error_kind() == KT_KIND_OUT_OF_MEMORY);
    EXPECT(TDB_ERR_MEMORY, tidesdb_get_stats(cf, &stats));
    CHECK(stats == NULL);
    EXPECT(TDB_ERR_MEMORY, tidesdb_list_column_families(db, &names, &count));
    fails = 0;
    check_value(txn, cf, "k", "v");
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
    tidesdb_finalize();
}

static void too_much(const char *path) {
    tidesdb_config_t config = tidesdb_default_config();
    kt_open_options_t options = KT_OPEN_OPTIONS_INIT;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db = NULL;
    uint8_t *value = calloc(1, 200000);

    CHECK(value != NULL);
    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    options.transaction_bytes_max = 1U << 20;
    OK(kt_open(&config, &options, &db));
    cf = family(db, "f");
    txn = begin(db);
    OK(tidesdb_txn_put(txn, cf, BYTES("first"), BYTES("v"), 0));
    while (tidesdb_txn_put(txn, cf, BYTES("large"), value, 200000, 0) == TDB_SUCCESS) {
    }
    CHECK(kt_last_error_code() == TDB_ERR_MEMORY_LIMIT && kt_last_error_kind() == KT_KIND_MEMORY_LIMIT);
    /* What it has can be committed. */
    OK(tidesdb_txn_commit(txn));
    OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_value(txn, cf, "first", "v");
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
    free(value);
}

static void full_device(const char *path) {
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    int code = TDB_SUCCESS, round;

    config.min_disk_space = UINT64_MAX;
    OK(tidesdb_create_column_family(db, "demanding", &config));
    cf = family(db, "demanding");
    txn = begin(db);
    /* The device is looked at now and then. */
    for (round = 0; round < 1000000 && code == TDB_SUCCESS; round++) {
        OK(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
        code = tidesdb_txn_commit(txn);
        OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    CHECK(code == TDB_ERR_IO && kt_last_error_kind() == KT_KIND_DISK_FULL);
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

/* Flips a bit in the middle of every file of a folder. */
static int damage_files(const char *folder) {
    DIR *entries = opendir(folder);
    struct dirent *entry;
    int count = 0;

    CHECK(entries != NULL);
    while ((entry = readdir(entries)) != NULL) {
        char *path;
        FILE *file;
        long length;
        int byte;

        if (entry->d_name[0] == '.') {
            continue;
        }
        path = path_in(folder, entry->d_name);
        file = fopen(path, "r+");
        CHECK(file != NULL);
        CHECK(fseek(file, 0, SEEK_END) == 0);
        length = ftell(file);
        CHECK(fseek(file, length / 2, SEEK_SET) == 0);
        byte = fgetc(file);
        CHECK(byte != EOF && fseek(file, length / 2, SEEK_SET) == 0);
        CHECK(fputc(byte ^ 0x10, file) != EOF && fclose(file) == 0);
        count++;
        free(path);
    }
    closedir(entries);
    return count;
}

static int told_damages = 0;

static void tell_damage(const char *text, void *ctx) {
    (void)ctx;
    CHECK(strstr(text, "klog") != NULL);
    told_damages++;
}

static void damaged_tables(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "f");
    tidesdb_txn_t *txn = begin(db);
    tidesdb_config_t config = tidesdb_default_config();
    char key[16], *tables = path_in(path, "klog");
    int index, code = TDB_SUCCESS, found = 0;
    size_t damaged = 0;

    for (index = 0; index < 3000; index++) {
        snprintf(key, sizeof key, "key%05d", index);
        OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES("a value that is not very long"), 0));
    }
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    OK(tidesdb_purge_cf(cf));
    OK(tidesdb_close(db));
    CHECK(damage_files(tables) > 0);

    /* The damage is an error where it is met: at the open, or by the read; a key is never missing. */
    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    code = tidesdb_open(&config, &db);
    if (code == TDB_SUCCESS) {
        cf = family(db, "f");
        txn = begin(db);
        for (index = 0; index < 3000; index++) {
            uint8_t *value = NULL;
            size_t size = 0;
            int one;

            snprintf(key, sizeof key, "key%05d", index);
            one = tidesdb_txn_get(txn, cf, BYTES(key), &value, &size);
            CHECK(one == TDB_SUCCESS || one == TDB_ERR_CORRUPTION);
            if (one == TDB_SUCCESS) {
                found++;
                free(value);
            } else {
                code = one;
            }
        }
        CHECK(code == TDB_ERR_CORRUPTION && found < 3000);
        tidesdb_txn_free(txn);
        EXPECT(TDB_ERR_CORRUPTION, kt_verify(db, NULL, tell_damage, NULL, &damaged));
        CHECK(damaged > 0 && told_damages == (int)damaged && kt_last_error_kind() == KT_KIND_CORRUPTION);
        OK(tidesdb_close(db));
    }
    CHECK(code == TDB_ERR_CORRUPTION);
    free(tables);
}

int main(int argc, char **argv) {
    char *path;

    CHECK(argc == 2);
    path = path_in(argv[1], "memory");
    no_memory(path);
    free(path);
    path = path_in(argv[1], "much");
    too_much(path);
    free(path);
    path = path_in(argv[1], "full");
    full_device(path);
    free(path);
    path = path_in(argv[1], "damaged");
    damaged_tables(path);
    free(path);
    return 0;
}
