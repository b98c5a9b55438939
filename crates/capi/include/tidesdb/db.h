/*
 * What bindings declare to their language: the interface of tidesdb.h, and the two functions that the library exports
 * without being part of it. Both headers are plain C11 and C++.
 */
#ifndef TIDESDB_DB_H
#define TIDESDB_DB_H

#include "tidesdb.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 1 when this library can compress with the codec, 0 when not (also for numbers that are no codec). Any thread.
 */
int tidesdb_compression_available(enum tidesdb_compression_algorithm type);

/*
 * Writes a line to the log, with printf arguments: from the level on that the last opened database asked for. Lines of more
 * than 4095 bytes are cut. `file` and `line` say where the line comes from; `file` may be NULL. Any thread.
 */
void tidesdb_log_write(int level, const char *file, int line, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#ifdef __cplusplus
}
#endif

#endif
