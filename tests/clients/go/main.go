// A Go program that links the library with cgo: writers and readers in goroutines, on several threads of the system.
package main

/*
#cgo pkg-config: tidesdb
#include <stdlib.h>
#include <tidesdb/tidesdb.h>
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"
)

func check(doing string, code C.int) {
	if code != C.TDB_SUCCESS {
		panic(fmt.Sprintf("%s: %d", doing, code))
	}
}

func bytes(text string) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(C.CBytes([]byte(text))), C.size_t(len(text))
}

// put writes one key in a transaction of its own.
func put(db *C.tidesdb_t, family *C.tidesdb_column_family_t, key, value string) {
	var txn *C.tidesdb_txn_t
	check("begin", C.tidesdb_txn_begin(db, &txn))
	defer C.tidesdb_txn_free(txn)
	keyStart, keySize := bytes(key)
	defer C.free(unsafe.Pointer(keyStart))
	valueStart, valueSize := bytes(value)
	defer C.free(unsafe.Pointer(valueStart))
	check("put", C.tidesdb_txn_put(txn, family, keyStart, keySize, valueStart, valueSize, 0))
	check("commit", C.tidesdb_txn_commit(txn))
}

// get reads one key; it must be there.
func get(db *C.tidesdb_t, family *C.tidesdb_column_family_t, key string) string {
	var txn *C.tidesdb_txn_t
	check("begin", C.tidesdb_txn_begin(db, &txn))
	defer C.tidesdb_txn_free(txn)
	keyStart, keySize := bytes(key)
	defer C.free(unsafe.Pointer(keyStart))
	var value *C.uint8_t
	var size C.size_t
	check("get", C.tidesdb_txn_get(txn, family, keyStart, keySize, &value, &size))
	defer C.free(unsafe.Pointer(value))
	return string(C.GoBytes(unsafe.Pointer(value), C.int(size)))
}

func main() {
	folder, err := os.MkdirTemp("", "go-client-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := C.CString(filepath.Join(folder, "db"))
	defer C.free(unsafe.Pointer(path))

	// The struct holds a pointer into C's memory only, so it may stand in Go's.
	config := C.tidesdb_default_config()
	config.db_path = path
	config.log_level = C.TDB_LOG_NONE
	var db *C.tidesdb_t
	check("open", C.tidesdb_open(&config, &db))
	name := C.CString("ports")
	defer C.free(unsafe.Pointer(name))
	settings := C.tidesdb_default_column_family_config()
	check("create", C.tidesdb_create_column_family(db, name, &settings))
	family := C.tidesdb_get_column_family(db, name)

	var workers sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for number := 0; number < 200; number++ {
				key := fmt.Sprintf("key-%d-%d", worker, number)
				put(db, family, key, "value of "+key)
				if found := get(db, family, key); found != "value of "+key {
					panic(found)
				}
			}
		}()
	}
	workers.Wait()
	check("close", C.tidesdb_close(db))
	fmt.Println("go: ok")
}
