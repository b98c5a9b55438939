"""The library through ctypes, loaded by the name that programs know it under."""

import ctypes
import sys
import tempfile

library = ctypes.CDLL("libtidesdb.so.9")
SUCCESS, NOT_FOUND = 0, -3


class Config(ctypes.Structure):
    """tidesdb_config_t up to the field that is set here, then the rest of its 128 bytes."""

    _fields_ = [
        ("db_path", ctypes.c_char_p),
        ("num_flush_threads", ctypes.c_int),
        ("num_compaction_threads", ctypes.c_int),
        ("log_level", ctypes.c_int),
        ("rest", ctypes.c_uint8 * 104),
    ]


class FamilyConfig(ctypes.Structure):
    """tidesdb_column_family_config_t, whose fields are left at their defaults."""

    _fields_ = [("bytes", ctypes.c_uint64 * 78)]


def prototype(name, result, *arguments):
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function


pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
default_config = prototype("tidesdb_default_config", Config)
default_family = prototype("tidesdb_default_column_family_config", FamilyConfig)
open_database = prototype("tidesdb_open", ctypes.c_int, ctypes.POINTER(Config), ctypes.POINTER(pointer))
close = prototype("tidesdb_close", ctypes.c_int, pointer)
create = prototype("tidesdb_create_column_family", ctypes.c_int, pointer, text, ctypes.POINTER(FamilyConfig))
get_family = prototype("tidesdb_get_column_family", pointer, pointer, text)
list_families = prototype(
    "tidesdb_list_column_families",
    ctypes.c_int,
    pointer,
    ctypes.POINTER(ctypes.POINTER(pointer)),
    ctypes.POINTER(ctypes.c_int),
)
begin = prototype("tidesdb_txn_begin", ctypes.c_int, pointer, ctypes.POINTER(pointer))
put = prototype("tidesdb_txn_put", ctypes.c_int, pointer, pointer, text, size, text, size, ctypes.c_int64)
get = prototype(
    "tidesdb_txn_get",
    ctypes.c_int,
    pointer,
    pointer,
    text,
    size,
    ctypes.POINTER(pointer),
    ctypes.POINTER(size),
)
commit = prototype("tidesdb_txn_commit", ctypes.c_int, pointer)
free_transaction = prototype("tidesdb_txn_free", None, pointer)
free = prototype("free", None, pointer)


def check(code):
    assert code == SUCCESS, code


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = default_config()
        config.db_path = f"{folder}/db".encode()
        config.log_level = 99
        db = pointer()
        check(open_database(ctypes.byref(config), ctypes.byref(db)))
        check(create(db, b"ports", ctypes.byref(default_family())))
        names, count = ctypes.POINTER(pointer)(), ctypes.c_int()
        check(list_families(db, ctypes.byref(names), ctypes.byref(count)))
        found = [ctypes.string_at(names[index]) for index in range(count.value)]
        assert found == [b"ports"], found
        for index in range(count.value):
            free(names[index])
        free(names)

        ports, transaction = get_family(db, b"ports"), pointer()
        check(begin(db, ctypes.byref(transaction)))
        for number in range(1000):
            key, value = b"key%d" % number, b"value%d" % number
            check(put(transaction, ports, key, len(key), value, len(value), 0))
        check(commit(transaction))
        free_transaction(transaction)

        check(begin(db, ctypes.byref(transaction)))
        value, length = pointer(), size()
        for number in range(1000):
            key = b"key%d" % number
            check(get(transaction, ports, key, len(key), ctypes.byref(value), ctypes.byref(length)))
            assert ctypes.string_at(value, length.value) == b"value%d" % number
            free(value)
        missing = get(transaction, ports, b"x", 1, ctypes.byref(value), ctypes.byref(length))
        assert missing == NOT_FOUND, missing
        free_transaction(transaction)
        check(close(db))
    print("python: ok")


if __name__ == "__main__":
    sys.exit(main())
