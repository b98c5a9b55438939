/* Databases and families: every call, with the edge cases that the interface promises. */
#include <sys/stat.h>

#include "check.h"

static int compare_backwards(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size, void *ctx) {
    (void)ctx;
    return tidesdb_comparator_reverse_memcmp(key1, key1_size, key2, key2_size, NULL);
}

static void opening(const char *directory) {
    char *path = path_in(directory, "deep/er");
    char *file = path_in(directory, "file");
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = (tidesdb_t *)path, *second = (tidesdb_t *)path;
    struct stat found;
    char *lock = path_in(path, "LOCK");

    INVALID(tidesdb_open(NULL, &db));
    INVALID(tidesdb_open(&config, NULL));
    config.db_path = NULL;
    INVALID(tidesdb_open(&config, &db));
    CHECK(db == NULL);
    config.db_path = (char *)(uintptr_t) "";
    INVALID(tidesdb_open(&config, &db));
    config.db_path = path;
    config.log_level = (tidesdb_log_level_t)7;
    INVALID(tidesdb_open(&config, &db));
    config.log_level = TDB_LOG_NONE;
    config.num_flush_threads = -1;
    INVALID(tidesdb_open(&config, &db));
    config.num_flush_threads = 0;
    config.object_store = (tidesdb_objstore_t *)path;
    INVALID(tidesdb_open(&config, &db));
    config.object_store = NULL;

    config.max_open_sstables = 0;
    OK(tidesdb_open(&config, &db));
    CHECK(stat(path, &found) == 0);
    CHECK((found.st_mode & 0777) == 0755);
    CHECK(stat(lock, &found) == 0);
    EXPECT(TDB_ERR_LOCKED, tidesdb_open(&config, &second));
    CHECK(second == NULL);
    OK(tidesdb_close(db));
    OK(tidesdb_open(&config, &db));
    OK(tidesdb_close(db));
    INVALID(tidesdb_close(NULL));

    fclose(fopen(file, "w"));
    config.db_path = file;
    INVALID(tidesdb_open(&config, &db));
    CHECK(db == NULL);
    free(lock);
    free(file);
    free(path);
}

static void names(tidesdb_t *db) {
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    char name[130];
    char **all = NULL;
    int count = -1, index;

    OK(tidesdb_list_column_families(db, &all, &count));
    CHECK(count == 0);
    free(all);
    INVALID(tidesdb_create_column_family(NULL, "a", &config));
    INVALID(tidesdb_create_column_family(db, NULL, &config));
    INVALID(tidesdb_create_column_family(db, "a", NULL));
    INVALID(tidesdb_create_column_family(db, "", &config));
    memset(name, 'n', sizeof name);
    name[128] = 0;
    INVALID(tidesdb_create_column_family(db, name, &config));
    name[127] = 0;
    OK(tidesdb_create_column_family(db, name, &config));
    EXPECT(TDB_ERR_EXISTS, tidesdb_create_column_family(db, name, &config));
    INVALID(tidesdb_create_column_family(db, "\xff\xfe", &config));
    OK(tidesdb_create_column_family(db, "b", &config));
    OK(tidesdb_create_column_family(db, "a", &config));

    INVALID(tidesdb_list_column_families(NULL, &all, &count));
    INVALID(tidesdb_list_column_families(db, NULL, &count));
    INVALID(tidesdb_list_column_families(db, &all, NULL));
    OK(tidesdb_list_column_families(db, &all, &count));
    CHECK(count == 3);
    CHECK(strcmp(all[0], "a") == 0 && strcmp(all[1], "b") == 0 && strcmp(all[2], name) == 0);
    for (index = 0; index < count; index++) {
        free(all[index]);
    }
    tidesdb_free(all);
    CHECK(tidesdb_get_column_family(db, "nothing") == NULL);
    CHECK(tidesdb_get_column_family(db, NULL) == NULL);
    CHECK(tidesdb_get_column_family(NULL, "a") == NULL);
    CHECK(tidesdb_get_column_family(db, "a") == tidesdb_get_column_family(db, "a"));
    CHECK(tidesdb_get_column_family(db, "a") != tidesdb_get_column_family(db, "b"));
    OK(tidesdb_drop_column_family(db, name));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_drop_column_family(db, name));
    INVALID(tidesdb_drop_column_family(db, NULL));
    INVALID(tidesdb_drop_column_family(NULL, "a"));
}

static void settings(tidesdb_t *db) {
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_stats_t *stats = NULL;

    config.sync_mode = TDB_SYNC_INTERVAL;
    config.sync_interval_us = 0;
    INVALID(tidesdb_create_column_family(db, "bad", &config));
    config.sync_interval_us = 1000;
    config.compression_algorithm = (compression_algorithm)5;
    INVALID(tidesdb_create_column_family(db, "bad", &config));
    config.compression_algorithm = TDB_COMPRESS_ZSTD;
    config.sync_mode = 3;
    INVALID(tidesdb_create_column_family(db, "bad", &config));
    config.sync_mode = TDB_SYNC_INTERVAL;
    config.default_isolation_level = (tidesdb_isolation_level_t)9;
    INVALID(tidesdb_create_column_family(db, "bad", &config));
    config.default_isolation_level = TDB_ISOLATION_SERIALIZABLE;
    memset(config.comparator_name, 'c', sizeof config.comparator_name);
    INVALID(tidesdb_create_column_family(db, "bad", &config));
    strcpy(config.comparator_name, "unheard of");
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_create_column_family(db, "bad", &config));
    strcpy(config.comparator_name, "uint64");
    config.index_sample_ratio = 0;
    config.block_index_prefix_len = 257;
    config.use_btree = 1;
    config.object_target_file_size = 12345;
    OK(tidesdb_create_column_family(db, "fitted", &config));
    OK(tidesdb_get_stats(tidesdb_get_column_family(db, "fitted"), &stats));
    CHECK(strcmp(stats->config->name, "fitted") == 0);
    CHECK(stats->config->index_sample_ratio == 1);
    CHECK(stats->config->block_index_prefix_len == 16);
    CHECK(stats->config->compression_algorithm == TDB_COMPRESS_ZSTD);
    CHECK(stats->config->default_isolation_level == TDB_ISOLATION_SERIALIZABLE);
    CHECK(stats->config->sync_mode == TDB_SYNC_INTERVAL && stats->config->sync_interval_us == 1000);
    CHECK(strcmp(stats->config->comparator_name, "uint64") == 0);
    CHECK(stats->config->use_btree == 1 && stats->use_btree == 1);
    CHECK(stats->config->object_target_file_size == 12345);
    tidesdb_free_stats(stats);
    OK(tidesdb_drop_column_family(db, "fitted"));
}

static void drops_renames_clones(tidesdb_t *db) {
    tidesdb_column_family_t *a = tidesdb_get_column_family(db, "a"), *copy;
    tidesdb_txn_t *txn;

    put(db, a, "k", "v");
    OK(tidesdb_rename_column_family(db, "a", "renamed"));
    CHECK(tidesdb_get_column_family(db, "a") == NULL);
    CHECK(tidesdb_get_column_family(db, "renamed") == a);
    txn = begin(db);
    check_value(txn, a, "k", "v");
    OK(tidesdb_rename_column_family(db, "renamed", "renamed"));
    INVALID(tidesdb_rename_column_family(db, "renamed", ""));
    INVALID(tidesdb_rename_column_family(db, NULL, "x"));
    INVALID(tidesdb_rename_column_family(db, "renamed", NULL));
    INVALID(tidesdb_rename_column_family(NULL, "renamed", "x"));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_rename_column_family(db, "a", "x"));
    EXPECT(TDB_ERR_EXISTS, tidesdb_rename_column_family(db, "renamed", "b"));

    INVALID(tidesdb_clone_column_family(db, "renamed", "renamed"));
    INVALID(tidesdb_clone_column_family(db, NULL, "x"));
    INVALID(tidesdb_clone_column_family(db, "renamed", NULL));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_clone_column_family(db, "nothing", "x"));
    EXPECT(TDB_ERR_EXISTS, tidesdb_clone_column_family(db, "renamed", "b"));
    OK(tidesdb_clone_column_family(db, "renamed", "copy"));
    copy = tidesdb_get_column_family(db, "copy");
    CHECK(copy != NULL && copy != a);
    put(db, a, "k", "changed");
    check_value(txn, copy, "k", "v");
    check_value(txn, a, "k", "changed");

    /* A dropped name created again is empty, and the old handle ends. */
    INVALID(tidesdb_delete_column_family(db, NULL));
    INVALID(tidesdb_delete_column_family(NULL, copy));
    OK(tidesdb_delete_column_family(db, copy));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_delete_column_family(db, copy));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_txn_put(txn, copy, BYTES("k"), BYTES("v"), 0));
    CHECK(tidesdb_get_column_family(db, "copy") == NULL);
    copy = family(db, "copy");
    check_missing(txn, copy, "k");
    tidesdb_txn_free(txn);
}

static void comparators(tidesdb_t *db) {
    tidesdb_comparator_fn compare = NULL;
    void *ctx = db;
    char name[65];

    INVALID(tidesdb_register_comparator(NULL, "mine", compare_backwards, NULL, NULL));
    INVALID(tidesdb_register_comparator(db, NULL, compare_backwards, NULL, NULL));
    INVALID(tidesdb_register_comparator(db, "mine", NULL, NULL, NULL));
    INVALID(tidesdb_register_comparator(db, "", compare_backwards, NULL, NULL));
    INVALID(tidesdb_register_comparator(db, "memcmp", compare_backwards, NULL, NULL));
    INVALID(tidesdb_register_comparator(db, "uint64", compare_backwards, NULL, NULL));
    memset(name, 'c', sizeof name);
    name[64] = 0;
    INVALID(tidesdb_register_comparator(db, name, compare_backwards, NULL, NULL));
    OK(tidesdb_get_comparator(db, "memcmp", &compare, &ctx));
    CHECK(compare == tidesdb_comparator_memcmp && ctx == NULL);
    OK(tidesdb_get_comparator(db, "case_insensitive", &compare, NULL));
    CHECK(compare == tidesdb_comparator_case_insensitive);
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_get_comparator(db, "mine", &compare, &ctx));
    INVALID(tidesdb_get_comparator(NULL, "mine", &compare, &ctx));
    INVALID(tidesdb_get_comparator(db, NULL, &compare, &ctx));
}

/* A database whose family names an order that is not registered opens; its calls are answered with a reason. */
static void deferred(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_comparator_fn compare = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    int context = 5;
    void *ctx = NULL;

    OK(tidesdb_register_comparator(db, "mine", compare_backwards, "text", &context));
    INVALID(tidesdb_register_comparator(db, "mine", compare_backwards, "text", &context));
    OK(tidesdb_get_comparator(db, "mine", &compare, &ctx));
    CHECK(compare == compare_backwards && ctx == &context);
    strcpy(config.comparator_name, "mine");
    OK(tidesdb_create_column_family(db, "ordered", &config));
    cf = family(db, "ordered");
    put(db, cf, "in a table", "1");
    OK(tidesdb_compact(cf));
    put(db, cf, "in the log", "2");
    put(db, family(db, "plain"), "k", "v");
    OK(tidesdb_close(db));

    db = open_at(path);
    cf = tidesdb_get_column_family(db, "ordered");
    CHECK(cf != NULL);
    txn = begin(db);
    check_value(txn, family(db, "plain"), "k", "v");
    EXPECT(TDB_ERR_PRECONDITION, tidesdb_txn_get(txn, cf, BYTES("in a table"), &value, &size));
    CHECK(kt_last_error_kind() == KT_KIND_COMPARATOR_MISSING);
    EXPECT(TDB_ERR_PRECONDITION, tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    EXPECT(TDB_ERR_NOT_FOUND, tidesdb_get_comparator(db, "mine", &compare, &ctx));
    OK(tidesdb_register_comparator(db, "mine", compare_backwards, NULL, NULL));
    check_value(txn, cf, "in a table", "1");
    check_value(txn, cf, "in the log", "2");
    OK(tidesdb_txn_put(txn, cf, BYTES("k"), BYTES("v"), 0));
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    OK(tidesdb_close(db));
}

static int sign(int number) { return (number > 0) - (number < 0); }

static void built_in_orders(void) {
    uint64_t one = 1, large = UINT64_MAX;
    int64_t minus = -1;
    const uint8_t *first = (const uint8_t *)&one, *last = (const uint8_t *)&large, *negative = (const uint8_t *)&minus;

    CHECK(sign(tidesdb_comparator_memcmp(BYTES("a"), BYTES("b"), NULL)) == -1);
    CHECK(sign(tidesdb_comparator_memcmp(BYTES("ab"), BYTES("a"), NULL)) == 1);
    CHECK(tidesdb_comparator_memcmp(BYTES("a"), BYTES("a"), NULL) == 0);
    CHECK(sign(tidesdb_comparator_reverse_memcmp(BYTES("a"), BYTES("b"), NULL)) == 1);
    CHECK(tidesdb_comparator_lexicographic((const uint8_t *)"a\0b", 3, (const uint8_t *)"a\0c", 3, NULL) == 0);
    CHECK(sign(tidesdb_comparator_uint64(first, 8, last, 8, NULL)) == -1);
    CHECK(sign(tidesdb_comparator_int64(first, 8, negative, 8, NULL)) == 1);
    CHECK(sign(tidesdb_comparator_int64(BYTES("a"), BYTES("b"), NULL)) == -1);
    CHECK(tidesdb_comparator_case_insensitive(BYTES("AbC"), BYTES("aBc"), NULL) == 0);
    CHECK(tidesdb_comparator_memcmp(NULL, 0, NULL, 0, NULL) == 0);
}

static void object_stores(tidesdb_t *db) {
    tidesdb_objstore_s3_config_t config;

    memset(&config, 0, sizeof config);
    CHECK(tidesdb_objstore_fs_create("/tmp") == NULL);
    CHECK(strlen(kt_last_error_message()) > 0);
    CHECK(tidesdb_objstore_s3_create("e", "b", NULL, "a", "s", NULL, 1, 0) == NULL);
    CHECK(tidesdb_objstore_s3_create_config(&config) == NULL);
    CHECK(tidesdb_objstore_s3_create_config(NULL) == NULL);
    INVALID(tidesdb_promote_to_primary(db));
    INVALID(tidesdb_promote_to_primary(NULL));
}

static void *counted_malloc(size_t size);
static void *counted_calloc(size_t count, size_t size);
static void *counted_realloc(void *ptr, size_t size);
static void counted_free(void *ptr);
static int allocated = 0, freed = 0;

static void *counted_malloc(size_t size) {
    allocated++;
    return malloc(size);
}

static void *counted_calloc(size_t count, size_t size) {
    allocated++;
    return calloc(count, size);
}

static void *counted_realloc(void *ptr, size_t size) { return realloc(ptr, size); }

static void counted_free(void *ptr) {
    freed++;
    free(ptr);
}

static void allocators(const char *directory) {
    tidesdb_t *db;
    tidesdb_txn_t *txn;
    tidesdb_column_family_t *cf;
    uint8_t *value = NULL;
    size_t size = 0;

    CHECK(tidesdb_init(NULL, NULL, NULL, NULL) == 0);
    CHECK(tidesdb_init(NULL, NULL, NULL, NULL) == -1);
    tidesdb_finalize();
    INVALID(tidesdb_init(malloc, NULL, NULL, free));
    CHECK(tidesdb_init(counted_malloc, counted_calloc, counted_realloc, counted_free) == 0);
    db = open_at(directory);
    CHECK(tidesdb_init(NULL, NULL, NULL, NULL) == -1);
    cf = family(db, "counted");
    put(db, cf, "k", "v");
    txn = begin(db);
    CHECK(allocated == 0);
    OK(tidesdb_txn_get(txn, cf, BYTES("k"), &value, &size));
    CHECK(allocated == 1);
    tidesdb_free(value);
    CHECK(freed == 1);
    tidesdb_free(NULL);
    tidesdb_txn_free(txn);
    OK(tidesdb_drop_column_family(db, "counted"));
    OK(tidesdb_close(db));
    tidesdb_finalize();
}

int main(int argc, char **argv) {
    tidesdb_t *db;
    char *path;

    CHECK(argc == 2);
    path = path_in(argv[1], "families");
    allocators(path);
    opening(argv[1]);
    db = open_at(path);
    names(db);
    settings(db);
    drops_renames_clones(db);
    comparators(db);
    built_in_orders();
    {
        char *other = path_in(argv[1], "deferred");

        deferred(other);
        free(other);
    }
    object_stores(db);
    CHECK(tidesdb_raise_open_file_limit(0) > 0);
    CHECK(tidesdb_raise_open_file_limit(tidesdb_raise_open_file_limit(-5)) > 0);
    OK(tidesdb_close(db));
    free(path);
    return 0;
}
