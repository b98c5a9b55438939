/*
 * Threads that mix the calls on eight families, while families are created, renamed, cloned and dropped: every answer is
 * checked against a model.
 *
 *     stress DIRECTORY SECONDS SEED
 *
 * Each worker has keys of its own in every family, and knows what they hold: its reads must say the same, whatever the
 * others do. Counters are common to all: a family's counter must end as the number of increments that were committed.
 * Administrators replace a family by its clone, or by an empty one, under a lock that workers hold shared while they use
 * the family; what the model says goes on, or begins anew. A reckless thread uses handles without that lock: any code is
 * right for it, a crash is not.
 */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define FAMILIES 8
#define WORKERS 12
#define ADMINISTRATORS 3
#define KEYS 24

typedef struct {
    pthread_rwlock_t lock;
    tidesdb_column_family_t *cf;
    char name[32];
    /* How often it was emptied. */
    int epoch;
    /* Increments that were committed since then. */
    long increments;
} place_t;

static tidesdb_t *db;
static place_t places[FAMILIES];
static int stop = 0;
static long commits = 0, conflicts = 0, replaced = 0, emptied = 0;

typedef struct {
    int id;
    uint64_t random;
    /* 0: absent, else the number in the value. */
    int model[FAMILIES][KEYS];
    int epoch[FAMILIES];
    int next_value;
} worker_t;

static uint64_t roll(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int below(uint64_t *state, int limit) { return (int)(roll(state) % (uint64_t)limit); }

static int is_over(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

static void key_of(const worker_t *worker, int index, char *key) { snprintf(key, 16, "w%02d-%02d", worker->id, index); }

static int number_in(const uint8_t *value, size_t size) {
    char text[32];

    CHECK(size > 0 && size < sizeof text);
    memcpy(text, value, size);
    text[size] = 0;
    return atoi(text);
}

static void check_get(worker_t *worker, tidesdb_txn_t *txn, int family_index, const int *expected, int index) {
    char key[16];
    uint8_t *value = NULL;
    size_t size = 0;
    int code;

    key_of(worker, index, key);
    switch (below(&worker->random, 3)) {
        case 0:
            code = tidesdb_txn_get(txn, places[family_index].cf, BYTES(key), &value, &size);
            break;
        case 1:
            code = tidesdb_txn_get_notrack(txn, places[family_index].cf, BYTES(key), &value, &size);
            break;
        default:
            code = tidesdb_txn_contains(txn, places[family_index].cf, BYTES(key));
            CHECK(code == (expected[index] == 0 ? TDB_ERR_NOT_FOUND : TDB_SUCCESS));
            return;
    }
    if (expected[index] == 0) {
        CHECK(code == TDB_ERR_NOT_FOUND);
        return;
    }
    CHECK(code == TDB_SUCCESS);
    CHECK(number_in(value, size) == expected[index]);
    free(value);
}

/* All of the worker's keys, forwards or backwards. */
static void check_scan(worker_t *worker, tidesdb_txn_t *txn, int family_index, const int *expected) {
    kt_iter_options_t options = KT_ITER_OPTIONS_INIT;
    tidesdb_iter_t *iter = NULL;
    char prefix[16];
    int forwards = below(&worker->random, 2), index, code;

    snprintf(prefix, sizeof prefix, "w%02d-", worker->id);
    options.prefix = (const uint8_t *)prefix;
    options.prefix_size = strlen(prefix);
    OK(kt_iter_new(txn, places[family_index].cf, &options, &iter));
    code = forwards ? tidesdb_iter_seek_to_first(iter) : tidesdb_iter_seek_to_last(iter);
    for (index = forwards ? 0 : KEYS - 1; index >= 0 && index < KEYS; index += forwards ? 1 : -1) {
        char key[16];
        uint8_t *found = NULL, *value = NULL;
        size_t key_size = 0, size = 0;

        if (expected[index] == 0) {
            continue;
        }
        CHECK(code == TDB_SUCCESS);
        key_of(worker, index, key);
        OK(tidesdb_iter_key_value(iter, &found, &key_size, &value, &size));
        CHECK(key_size == strlen(key) && memcmp(found, key, key_size) == 0);
        CHECK(number_in(value, size) == expected[index]);
        code = forwards ? tidesdb_iter_next(iter) : tidesdb_iter_prev(iter);
    }
    CHECK(code == TDB_ERR_NOT_FOUND);
    tidesdb_iter_free(iter);
}

static void write_one(worker_t *worker, tidesdb_txn_t *txn, int family_index, int *expected) {
    tidesdb_column_family_t *cf = places[family_index].cf;
    int index = below(&worker->random, KEYS), other;
    char key[16], end[16], value[32];

    key_of(worker, index, key);
    switch (below(&worker->random, 10)) {
        case 0:
        case 1:
            OK(tidesdb_txn_delete(txn, cf, BYTES(key)));
            expected[index] = 0;
            break;
        case 2:
            /* Not written once, so it may only be read like a delete. */
            OK(tidesdb_txn_single_delete(txn, cf, BYTES(key)));
            expected[index] = 0;
            break;
        case 3:
            other = index + below(&worker->random, KEYS - index);
            key_of(worker, other, end);
            OK(kt_txn_delete_range(txn, cf, BYTES(key), BYTES(end)));
            for (; index < other; index++) {
                expected[index] = 0;
            }
            break;
        default:
            worker->next_value++;
            snprintf(value, sizeof value, "%d", worker->next_value);
            OK(tidesdb_txn_put(txn, cf, BYTES(key), BYTES(value), 0));
            expected[index] = worker->next_value;
    }
}

static void use_family(worker_t *worker, tidesdb_txn_t *txn, int family_index, int *expected) {
    int saved[KEYS], step;

    for (step = below(&worker->random, 6); step >= 0; step--) {
        check_get(worker, txn, family_index, expected, below(&worker->random, KEYS));
        write_one(worker, txn, family_index, expected);
        if (below(&worker->random, 6) == 0) {
            memcpy(saved, expected, sizeof saved);
            OK(tidesdb_txn_savepoint(txn, "here"));
            write_one(worker, txn, family_index, expected);
            write_one(worker, txn, family_index, expected);
            OK(tidesdb_txn_rollback_to_savepoint(txn, "here"));
            memcpy(expected, saved, sizeof saved);
        }
    }
    if (below(&worker->random, 3) == 0) {
        check_scan(worker, txn, family_index, expected);
    }
}

/* One increment of the family's counter, in the transaction. */
static void increment(tidesdb_txn_t *txn, int family_index) {
    uint8_t *value = NULL;
    size_t size = 0;
    char text[32];
    long before = 0;
    int code = kt_txn_get_for_update(txn, places[family_index].cf, BYTES("counter"), &value, &size);

    CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
    if (code == TDB_SUCCESS) {
        before = number_in(value, size);
        free(value);
    }
    snprintf(text, sizeof text, "%ld", before + 1);
    OK(tidesdb_txn_put(txn, places[family_index].cf, BYTES("counter"), BYTES(text), 0));
}

/* A transaction over two families. */
static void transact(worker_t *worker) {
    int first = below(&worker->random, FAMILIES - 1), chosen[2], expected[2][KEYS], counted, index, code;
    tidesdb_txn_t *txn;

    chosen[0] = first;
    chosen[1] = first + 1 + below(&worker->random, FAMILIES - first - 1);
    for (index = 0; index < 2; index++) {
        int family_index = chosen[index];

        CHECK(pthread_rwlock_rdlock(&places[family_index].lock) == 0);
        if (worker->epoch[family_index] != places[family_index].epoch) {
            worker->epoch[family_index] = places[family_index].epoch;
            memset(worker->model[family_index], 0, sizeof worker->model[family_index]);
        }
        memcpy(expected[index], worker->model[family_index], sizeof expected[index]);
    }
    txn = begin_at(db, (tidesdb_isolation_level_t)below(&worker->random, 5));
    for (index = 0; index < 2; index++) {
        use_family(worker, txn, chosen[index], expected[index]);
    }
    counted = below(&worker->random, 4) == 0;
    if (counted) {
        increment(txn, chosen[1]);
    }
    if (below(&worker->random, 8) == 0) {
        OK(tidesdb_txn_rollback(txn));
    } else {
        code = tidesdb_txn_commit(txn);
        CHECK(code == TDB_SUCCESS || (code == TDB_ERR_CONFLICT && counted));
        if (code == TDB_SUCCESS) {
            for (index = 0; index < 2; index++) {
                memcpy(worker->model[chosen[index]], expected[index], sizeof expected[index]);
            }
            if (counted) {
                __atomic_fetch_add(&places[chosen[1]].increments, 1, __ATOMIC_SEQ_CST);
            }
            __atomic_fetch_add(&commits, 1, __ATOMIC_RELAXED);
        } else {
            __atomic_fetch_add(&conflicts, 1, __ATOMIC_RELAXED);
        }
    }
    tidesdb_txn_free(txn);
    for (index = 0; index < 2; index++) {
        CHECK(pthread_rwlock_unlock(&places[chosen[index]].lock) == 0);
    }
}

/* What does not write. */
static void look_around(worker_t *worker) {
    place_t *place = &places[below(&worker->random, FAMILIES)];
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t db_stats;
    tidesdb_cache_stats_t cache_stats;
    uint64_t estimate = 0;
    double cost = -1;

    CHECK(pthread_rwlock_rdlock(&place->lock) == 0);
    switch (below(&worker->random, 9)) {
        case 0:
            OK(tidesdb_get_stats(place->cf, &stats));
            CHECK(stats->num_levels > 0);
            CHECK(stats->read_amp >= 1);
            tidesdb_free_stats(stats);
            break;
        case 1:
            OK(tidesdb_get_db_stats(db, &db_stats));
            /* Each administrator may be between the end of one family and the beginning of the next. */
            CHECK(db_stats.num_column_families >= FAMILIES - ADMINISTRATORS);
            break;
        case 2:
            OK(tidesdb_get_cache_stats(db, &cache_stats));
            CHECK(cache_stats.enabled == 1);
            break;
        case 3:
            OK(tidesdb_range_cost(place->cf, BYTES("w00"), BYTES("w99"), &cost));
            CHECK(cost >= 0);
            break;
        case 4:
            OK(tidesdb_cf_estimate_cardinality(place->cf, &estimate));
            break;
        case 5:
            OK(tidesdb_flush_memtable(place->cf));
            CHECK(tidesdb_is_flushing(place->cf) >= 0 && tidesdb_is_compacting(place->cf) >= 0);
            break;
        case 6:
            CHECK(tidesdb_get_column_family(db, place->name) == place->cf);
            break;
        case 7:
            OK(tidesdb_sync_wal(place->cf));
            break;
        default:
            if (below(&worker->random, 20) == 0) {
                OK(tidesdb_compact(place->cf));
            }
    }
    CHECK(pthread_rwlock_unlock(&place->lock) == 0);
}

static void *work(void *argument) {
    worker_t *worker = argument;

    while (!is_over()) {
        transact(worker);
        if (below(&worker->random, 10) == 0) {
            look_around(worker);
        }
    }
    return NULL;
}

static void check_counter(place_t *place) {
    tidesdb_txn_t *txn = begin(db);
    uint8_t *value = NULL;
    size_t size = 0;
    int code = tidesdb_txn_get(txn, place->cf, BYTES("counter"), &value, &size);

    if (place->increments == 0) {
        CHECK(code == TDB_ERR_NOT_FOUND);
    } else {
        CHECK(code == TDB_SUCCESS);
        CHECK(number_in(value, size) == place->increments);
        free(value);
    }
    tidesdb_txn_free(txn);
}

/* Replaces a family by its clone, by an empty one, or gives it another name. */
static void replace(worker_t *worker, place_t *place) {
    tidesdb_column_family_t *before;
    char name[32];

    worker->next_value++;
    snprintf(name, sizeof name, "f%d-%d", worker->id, worker->next_value);
    CHECK(pthread_rwlock_wrlock(&place->lock) == 0);
    before = place->cf;
    check_counter(place);
    switch (below(&worker->random, 3)) {
        case 0:
            OK(tidesdb_rename_column_family(db, place->name, name));
            CHECK(tidesdb_get_column_family(db, name) == before);
            break;
        case 1:
            OK(tidesdb_clone_column_family(db, place->name, name));
            OK(tidesdb_drop_column_family(db, place->name));
            place->cf = tidesdb_get_column_family(db, name);
            CHECK(place->cf != NULL && place->cf != before);
            replaced++;
            break;
        default:
            OK(tidesdb_delete_column_family(db, place->cf));
            place->cf = family(db, name);
            CHECK(place->cf != before);
            place->epoch++;
            place->increments = 0;
            emptied++;
    }
    strcpy(place->name, name);
    check_counter(place);
    CHECK(pthread_rwlock_unlock(&place->lock) == 0);
}

static void *administer(void *argument) {
    worker_t *worker = argument;

    while (!is_over()) {
        replace(worker, &places[below(&worker->random, FAMILIES)]);
        usleep(1000U * (unsigned)below(&worker->random, 20));
    }
    return NULL;
}

/* Uses handles of families that may be gone. */
static void *be_reckless(void *argument) {
    worker_t *worker = argument;
    tidesdb_column_family_t *stale[FAMILIES];
    int index;

    for (index = 0; index < FAMILIES; index++) {
        stale[index] = places[index].cf;
    }
    while (!is_over()) {
        tidesdb_column_family_t **cf = &stale[below(&worker->random, FAMILIES)];
        tidesdb_txn_t *txn = begin_at(db, (tidesdb_isolation_level_t)below(&worker->random, 5));
        tidesdb_iter_t *iter = NULL;
        char **names = NULL;
        int count = 0, code;

        code = tidesdb_txn_put(txn, *cf, BYTES("reckless"), BYTES("x"), 0);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
        if (tidesdb_iter_new(txn, *cf, &iter) == TDB_SUCCESS) {
            (void)tidesdb_iter_seek_to_first(iter);
            (void)tidesdb_iter_next(iter);
            tidesdb_iter_free(iter);
        }
        code = tidesdb_txn_commit(txn);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND || code == TDB_ERR_CONFLICT);
        tidesdb_txn_free(txn);
        OK(tidesdb_list_column_families(db, &names, &count));
        for (index = 0; index < count; index++) {
            if (below(&worker->random, 8) == 0) {
                tidesdb_column_family_t *found = tidesdb_get_column_family(db, names[index]);

                /* It may have gone since it was listed. */
                *cf = found == NULL ? *cf : found;
            }
            free(names[index]);
        }
        free(names);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static worker_t workers[WORKERS + ADMINISTRATORS + 1];
    pthread_t threads[WORKERS + ADMINISTRATORS + 1];
    uint64_t seed;
    int index, total = WORKERS + ADMINISTRATORS + 1;

    CHECK(argc == 4);
    seed = strtoull(argv[3], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    db = open_at(argv[1]);
    for (index = 0; index < FAMILIES; index++) {
        CHECK(pthread_rwlock_init(&places[index].lock, NULL) == 0);
        snprintf(places[index].name, sizeof places[index].name, "family-%d", index);
        places[index].cf = family(db, places[index].name);
    }
    for (index = 0; index < total; index++) {
        workers[index].id = index;
        workers[index].random = (seed + 1) * 0x9E3779B97F4A7C15U + (uint64_t)index * 0xD1B54A32D192ED03U + 1;
        CHECK(pthread_create(&threads[index], NULL,
                             index < WORKERS                    ? work
                             : index < WORKERS + ADMINISTRATORS ? administer
                                                                : be_reckless,
                             &workers[index]) == 0);
    }
    sleep((unsigned)atoi(argv[2]));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (index = 0; index < total; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    for (index = 0; index < FAMILIES; index++) {
        check_counter(&places[index]);
    }
    OK(tidesdb_close(db));

    /* Everything is there after the next open as well. */
    db = open_at(argv[1]);
    for (index = 0; index < FAMILIES; index++) {
        int worker;
        tidesdb_txn_t *txn = begin(db);

        places[index].cf = tidesdb_get_column_family(db, places[index].name);
        CHECK(places[index].cf != NULL);
        check_counter(&places[index]);
        for (worker = 0; worker < WORKERS; worker++) {
            if (workers[worker].epoch[index] == places[index].epoch) {
                check_scan(&workers[worker], txn, index, workers[worker].model[index]);
            }
        }
        tidesdb_txn_free(txn);
    }
    OK(tidesdb_close(db));
    printf("%ld commits, %ld conflicts, %ld families replaced, %ld emptied\n", commits, conflicts, replaced, emptied);
    CHECK(commits > 0);
    return 0;
}
