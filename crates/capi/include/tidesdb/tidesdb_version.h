/*
 * The version of the interface: the functions, structs and constants of tidesdb.h are those of this version of libtidesdb.
 * The version of the library itself is kt_version() of kingtide.h.
 */
#ifndef TIDESDB_VERSION_H
#define TIDESDB_VERSION_H

#define TIDESDB_VERSION_MAJOR 9
#define TIDESDB_VERSION_MINOR 3
#define TIDESDB_VERSION_PATCH 14
#define TIDESDB_VERSION "9.3.14"

#endif
