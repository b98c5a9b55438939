/* Flushing, merging, settings that change, statistics. */
#include "check.h"

static void fill(tidesdb_t *db, tidesdb_column_family_t *cf, int first, int count, size_t value_size) {
    tidesdb_txn_t *txn = begin(db);
    char key[16], *value = malloc(value_size + 1);
    int index;

    CHECK(value != NULL);
    memset(value, 'v', value_size);
    value[value_size] = 0;
    for (index = first; index < first + count; index++) {
        snprintf(key, sizeof key, "key%06d", index);
        OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES(value), 0));
    }
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    free(value);
}

static void delete_some(tidesdb_t *db, tidesdb_column_family_t *cf, int first, int count) {
    tidesdb_txn_t *txn = begin(db);
    char key[16];
    int index;

    for (index = first; index < first + count; index++) {
        snprintf(key, sizeof key, "key%06d", index);
        OK(tidesdb_txn_delete(txn, cf, BYTES(key)));
    }
    OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

static void check_sums(const tidesdb_stats_t *stats) {
    uint64_t tombstones = 0, keys = 0;
    int level;

    CHECK(stats->num_levels > 0 && stats->read_amp >= 1);
    for (level = 0; level < stats->num_levels; level++) {
        tombstones += stats->level_tombstone_counts[level];
        keys += stats->level_key_counts[level];
        CHECK((stats->level_num_sstables[level] > 0) == (stats->level_sizes[level] > 0));
    }
    CHECK(tombstones == stats->total_tombstones);
    CHECK(keys <= stats->total_keys);
}

static void statistics(tidesdb_t *db) {
    tidesdb_column_family_t *cf = family(db, "measured");
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t all;
    tidesdb_cache_stats_t cache;
    uint64_t estimate = 99, written_before;

    INVALID(tidesdb_get_stats(NULL, &stats));
    INVALID(tidesdb_get_stats(cf, NULL));
    INVALID(tidesdb_get_db_stats(NULL, &all));
    INVALID(tidesdb_get_db_stats(db, NULL));
    INVALID(tidesdb_get_cache_stats(NULL, &cache));
    INVALID(tidesdb_get_cache_stats(db, NULL));
    INVALID(tidesdb_cf_estimate_cardinality(NULL, &estimate));
    INVALID(tidesdb_cf_estimate_cardinality(cf, NULL));
    tidesdb_free_stats(NULL);

    OK(tidesdb_get_stats(cf, &stats));
    check_sums(stats);
    CHECK(stats->total_keys == 0 && stats->total_tombstones == 0);
    CHECK(stats->user_bytes_written == 0 && stats->max_sst_density_level == 0);
    tidesdb_free_stats(stats);
    OK(tidesdb_cf_estimate_cardinality(cf, &estimate));
    CHECK(estimate == 0);

    OK(tidesdb_get_db_stats(db, &all));
    written_before = all.user_bytes_written;
    fill(db, cf, 0, 1000, 100);
    OK(tidesdb_get_stats(cf, &stats));
    check_sums(stats);
    CHECK(stats->total_keys == 1000 && stats->memtable_size > 1000 * 109);
    CHECK(stats->user_bytes_written == 1000 * (9 + 100));
    /* The log is compressed where that pays, as it does here; each commit has a head all the same. */
    CHECK(stats->wal_bytes_written > 0 && stats->wal_bytes_written < stats->user_bytes_written);
    tidesdb_free_stats(stats);
    OK(tidesdb_cf_estimate_cardinality(cf, &estimate));
    CHECK(estimate == 1000);

    OK(tidesdb_purge_cf(cf));
    delete_some(db, cf, 0, 300);
    OK(tidesdb_flush_memtable(cf));
    while (tidesdb_is_flushing(cf) == 1) {
    }
    OK(tidesdb_get_stats(cf, &stats));
    check_sums(stats);
    CHECK(stats->flush_count >= 2 && stats->flush_bytes_written > 0);
    CHECK(stats->avg_key_size == 9);
    tidesdb_free_stats(stats);
    OK(tidesdb_purge(db));
    CHECK(tidesdb_is_flushing(cf) == 0 && tidesdb_is_compacting(cf) == 0);
    OK(tidesdb_get_stats(cf, &stats));
    check_sums(stats);
    CHECK(stats->total_keys == 700 && stats->total_tombstones == 0 && stats->compaction_count > 0);
    CHECK(stats->compaction_bytes_read > 0 && stats->compaction_bytes_written > 0);
    tidesdb_free_stats(stats);

    OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.user_bytes_written == written_before + 1000 * 109 + 300 * 9);
    CHECK(all.compaction_queue_size == 0 && all.flush_queue_size == 0 && all.flush_pending_count == 0);
    CHECK(all.num_column_families == 1 && all.total_sstable_count >= 1 && all.global_seq > 0);
    CHECK(all.total_memory > all.available_memory && all.available_memory > 0);
    CHECK(all.resolved_memory_limit > 0 && all.memory_pressure_level == 0);
    CHECK(all.wal_bytes_written > 0 && all.uwal_bytes_written == 0 && all.unified_memtable_enabled == 0);
    CHECK(all.object_store_enabled == 0 && all.object_store_connector == NULL && all.replica_mode == 0);
    OK(tidesdb_get_cache_stats(db, &cache));
    CHECK(cache.enabled == 1 && cache.num_partitions > 0 && cache.hit_rate >= 0 && cache.hit_rate <= 1);
}

static void costs(tidesdb_t *db) {
    tidesdb_column_family_t *cf = family(db, "measured");
    double narrow = -1, wide = -1, swapped = -1, outside = -1;

    fill(db, cf, 0, 5000, 100);
    OK(tidesdb_purge_cf(cf));
    INVALID(tidesdb_range_cost(NULL, BYTES("a"), BYTES("b"), &wide));
    INVALID(tidesdb_range_cost(cf, NULL, 1, BYTES("b"), &wide));
    INVALID(tidesdb_range_cost(cf, BYTES("a"), BYTES(""), &wide));
    INVALID(tidesdb_range_cost(cf, BYTES("a"), BYTES("b"), NULL));
    OK(tidesdb_range_cost(cf, BYTES("key001000"), BYTES("key001500"), &narrow));
    OK(tidesdb_range_cost(cf, BYTES("key000500"), BYTES("key004500"), &wide));
    OK(tidesdb_range_cost(cf, BYTES("key004500"), BYTES("key000500"), &swapped));
    OK(tidesdb_range_cost(cf, BYTES("x"), BYTES("y"), &outside));
    CHECK(narrow >= 0 && wide >= narrow && swapped == wide && outside >= 0 && outside < wide);
}

static void merging(tidesdb_t *db) {
    tidesdb_column_family_t *cf = family(db, "measured");

    INVALID(tidesdb_flush_memtable(NULL));
    INVALID(tidesdb_compact(NULL));
    INVALID(tidesdb_purge_cf(NULL));
    INVALID(tidesdb_purge(NULL));
    INVALID(tidesdb_sync_wal(NULL));
    INVALID(tidesdb_compact_range(NULL, BYTES("a"), BYTES("b")));
    INVALID(tidesdb_compact_range(cf, NULL, 0, NULL, 0));
    INVALID(tidesdb_compact_range(cf, (const uint8_t *)"a", 0, BYTES("b")));
    INVALID(tidesdb_compact_range(cf, BYTES("a"), (const uint8_t *)"b", 0));
    OK(tidesdb_compact_range(cf, BYTES("a"), BYTES("b")));
    OK(tidesdb_compact_range(cf, BYTES("key001"), NULL, 0));
    OK(tidesdb_compact_range(cf, NULL, 0, BYTES("key001")));
    OK(tidesdb_flush_memtable(cf));
    OK(tidesdb_flush_memtable(cf));
    OK(tidesdb_sync_wal(cf));
    CHECK(tidesdb_is_flushing(NULL) == 0 && tidesdb_is_compacting(NULL) == 0);
}

static void changed_settings(const char *path) {
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = family(db, "changed");
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_stats_t *stats = NULL;

    INVALID(tidesdb_cf_update_runtime_config(NULL, &config, 0));
    INVALID(tidesdb_cf_update_runtime_config(cf, NULL, 0));
    config.sync_mode = 17;
    INVALID(tidesdb_cf_update_runtime_config(cf, &config, 0));
    config.sync_mode = TDB_SYNC_FULL;
    config.write_buffer_size = 1U << 20;
    config.use_btree = 1;
    strcpy(config.comparator_name, "uint64");
    OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    config.write_buffer_size = 2U << 20;
    OK(tidesdb_cf_update_runtime_config(cf, &config, 0));
    OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->config->write_buffer_size == 2U << 20 && stats->config->sync_mode == TDB_SYNC_FULL);
    /* These do not change. */
    CHECK(strcmp(stats->config->comparator_name, "memcmp") == 0 && stats->config->use_btree == 0);
    tidesdb_free_stats(stats);
    OK(tidesdb_close(db));
    db = open_at(path);
    OK(tidesdb_get_stats(family(db, "changed"), &stats));
    CHECK(stats->config->write_buffer_size == 1U << 20);
    tidesdb_free_stats(stats);
    OK(tidesdb_drop_column_family(db, "changed"));
    OK(tidesdb_close(db));
}

static void unified(const char *path) {
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_t *cf;
    tidesdb_db_stats_t all;
    tidesdb_cache_stats_t cache;
    tidesdb_stats_t *stats = NULL;
    tidesdb_t *db = NULL;

    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    config.block_cache_size = 0;
    config.unified_memtable = 1;
    config.unified_memtable_sync_mode = 9;
    INVALID(tidesdb_open(&config, &db));
    config.unified_memtable_sync_mode = TDB_SYNC_INTERVAL;
    config.finish_compactions_on_close = 1;
    OK(tidesdb_open(&config, &db));
    cf = family(db, "f");
    fill(db, cf, 0, 100, 10);
    OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.unified_memtable_enabled == 1 && all.unified_memtable_bytes == all.total_memtable_bytes);
    CHECK(all.uwal_bytes_written > 0 && all.wal_bytes_written == 0);
    OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->wal_bytes_written == 0);
    tidesdb_free_stats(stats);
    OK(tidesdb_get_cache_stats(db, &cache));
    CHECK(cache.enabled == 0 && cache.total_bytes == 0 && cache.hits == 0 && cache.num_partitions == 0);
    INVALID(tidesdb_cancel_background_work(NULL));
    OK(tidesdb_cancel_background_work(db));
    fill(db, cf, 100, 100, 10);
    OK(tidesdb_flush_memtable(cf));
    OK(tidesdb_close(db));
}

/* The memory budget is what was asked for, or the smallest there is, and what transactions hold shows in it. */
static void budget(const char *path) {
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_t *cf;
    tidesdb_db_stats_t all;
    tidesdb_txn_t *txn = NULL;
    static const uint8_t value[1000];
    tidesdb_db_stats_t before;
    tidesdb_t *db = NULL;
    char key[32];
    int result = TDB_SUCCESS;

    config.db_path = (char *)(uintptr_t)path;
    config.log_level = TDB_LOG_NONE;
    config.max_memory_usage = 1;
    OK(tidesdb_open(&config, &db));
    OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.resolved_memory_limit == 8U << 20);
    OK(tidesdb_close(db));
    config.max_memory_usage = 32U << 20;
    OK(tidesdb_open(&config, &db));
    cf = family(db, "f");
    OK(tidesdb_get_db_stats(db, &before));
    CHECK(before.resolved_memory_limit == 32U << 20 && before.memory_pressure_level == 0);
    CHECK(before.txn_memory_bytes == 0 && before.total_memtable_bytes == 0);
    OK(tidesdb_txn_begin(db, &txn));
    for (int number = 0; number < 100 * 1000 && result == TDB_SUCCESS; number++) {
        (void)snprintf(key, sizeof key, "key%08d", number);
        result = tidesdb_txn_put(txn, cf, BYTES(key), value, sizeof value, 0);
    }
    CHECK(result == TDB_ERR_MEMORY_LIMIT);
    OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.txn_memory_bytes > 8 << 20 && all.txn_memory_bytes <= 32 << 20);
    OK(tidesdb_txn_rollback(txn));
    tidesdb_txn_free(txn);
    OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.txn_memory_bytes == 0 && all.memory_pressure_level == 0);
    OK(tidesdb_close(db));
}

int main(int argc, char **argv) {
    tidesdb_t *db;
    char *path;

    CHECK(argc == 2);
    path = path_in(argv[1], "db");
    db = open_at(path);
    statistics(db);
    costs(db);
    merging(db);
    OK(tidesdb_close(db));
    changed_settings(path);
    free(path);
    path = path_in(argv[1], "budget");
    budget(path);
    free(path);
    path = path_in(argv[1], "unified");
    unified(path);
    free(path);
    return 0;
}
