/* Settings in files. */
#include "check.h"

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

static void round_trip(const char *path) {
    static const compression_algorithm codecs[5] = {TDB_COMPRESS_NONE, TDB_COMPRESS_SNAPPY, TDB_COMPRESS_LZ4,
                                                    TDB_COMPRESS_ZSTD, TDB_COMPRESS_LZ4_FAST};
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config(), back;
    int index;

    config.write_buffer_size = 123456;
    config.klog_value_threshold = 77;
    config.bloom_fpr = 0.125;
    config.skip_list_probability = 0.5F;
    config.sync_mode = TDB_SYNC_INTERVAL;
    config.sync_interval_us = 42;
    config.default_isolation_level = TDB_ISOLATION_SERIALIZABLE;
    config.tombstone_density_trigger = 0.75;
    config.use_btree = 1;
    config.object_prefetch_compaction = 0;
    strcpy(config.comparator_name, "uint64");
    strcpy(config.comparator_ctx_str, "a=b");
    for (index = 0; index < 5; index++) {
        config.compression_algorithm = codecs[index];
        OK(tidesdb_cf_config_save_to_ini(path, "orders", &config));
        OK(tidesdb_cf_config_load_from_ini(path, "orders", &back));
        CHECK(strcmp(back.name, "orders") == 0);
        CHECK(back.compression_algorithm == codecs[index]);
        CHECK(back.write_buffer_size == 123456 && back.klog_value_threshold == 77);
        CHECK(back.bloom_fpr == 0.125 && back.skip_list_probability == 0.5F);
        CHECK(back.sync_mode == TDB_SYNC_INTERVAL && back.sync_interval_us == 42);
        CHECK(back.default_isolation_level == TDB_ISOLATION_SERIALIZABLE);
        CHECK(back.tombstone_density_trigger == 0.75 && back.use_btree == 1);
        CHECK(back.object_prefetch_compaction == 0);
        CHECK(strcmp(back.comparator_name, "uint64") == 0);
        CHECK(strcmp(back.comparator_ctx_str, "a=b") == 0);
    }
    /* Another section beside it. */
    config.write_buffer_size = 99999;
    OK(tidesdb_cf_config_save_to_ini(path, "others", &config));
    OK(tidesdb_cf_config_load_from_ini(path, "orders", &back));
    CHECK(back.write_buffer_size == 123456);
    OK(tidesdb_cf_config_load_from_ini(path, "others", &back));
    CHECK(back.write_buffer_size == 99999);
}

static void by_hand(const char *path) {
    tidesdb_column_family_config_t config;

    write_text(path, "; a comment\n# another\n[other]\nwrite_buffer_size = 1\n\n[mine]\n"
                     "  value_threshold=2048 ; behind\ncompression_algorithm = LZ4_FAST\nfrom_the_future = x\n");
    OK(tidesdb_cf_config_load_from_ini(path, "mine", &config));
    CHECK(config.klog_value_threshold == 2048);
    CHECK(config.compression_algorithm == TDB_COMPRESS_LZ4_FAST);
    CHECK(config.write_buffer_size == tidesdb_default_column_family_config().write_buffer_size);
    /* A section that is not there names nothing. */
    OK(tidesdb_cf_config_load_from_ini(path, "nobody", &config));
    CHECK(config.klog_value_threshold == tidesdb_default_column_family_config().klog_value_threshold);
}

static void damage(const char *path, const char *missing) {
    static const char *const texts[] = {"[mine\nx = 1\n",
                                        "[mine]\nno equals sign\n",
                                        "write_buffer_size = 1\n",
                                        "[mine]\n= 1\n",
                                        "[mine]\nwrite_buffer_size = many\n",
                                        "[mine]\nwrite_buffer_size = -1\n",
                                        "[mine]\ncompression_algorithm = RAR\n",
                                        "[mine]\ncompression_algorithm = 9\n",
                                        "[mine]\nbloom_fpr = \n",
                                        "[mine] x\n"};
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    size_t index;

    for (index = 0; index < sizeof texts / sizeof texts[0]; index++) {
        write_text(path, texts[index]);
        config.min_levels = 7;
        EXPECT(TDB_ERR_CORRUPTION, tidesdb_cf_config_load_from_ini(path, "mine", &config));
        CHECK(config.min_levels == 7);
    }
    EXPECT(TDB_ERR_IO, tidesdb_cf_config_load_from_ini(missing, "mine", &config));
    EXPECT(TDB_ERR_IO, tidesdb_cf_config_save_to_ini("/no/such/folder/x.ini", "mine", &config));
    INVALID(tidesdb_cf_config_load_from_ini(NULL, "mine", &config));
    INVALID(tidesdb_cf_config_load_from_ini(path, NULL, &config));
    INVALID(tidesdb_cf_config_load_from_ini(path, "mine", NULL));
    INVALID(tidesdb_cf_config_save_to_ini(NULL, "mine", &config));
    INVALID(tidesdb_cf_config_save_to_ini(path, NULL, &config));
    INVALID(tidesdb_cf_config_save_to_ini(path, "mine", NULL));
    INVALID(tidesdb_cf_config_save_to_ini(path, "a]b", &config));
    config.sync_mode = 9;
    INVALID(tidesdb_cf_config_save_to_ini(path, "mine", &config));
}

int main(int argc, char **argv) {
    char *path, *missing;

    CHECK(argc == 2);
    path = path_in(argv[1], "settings.ini");
    missing = path_in(argv[1], "missing.ini");
    round_trip(path);
    by_hand(path);
    damage(path, missing);
    free(path);
    free(missing);
    return 0;
}
