//! Compiles the C part and names the shared library.

fn main() {
    println!("cargo:rerun-if-changed=src/log_write.c");
    println!("cargo:rerun-if-changed=build.rs");
    cc::Build::new()
        .file("src/log_write.c")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("kingtide_log_write");
    // What programs that were linked against libtidesdb 9 look for at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtidesdb.so.9");
    // Threads of an open database run in it: a program that loads it at run time must not unload it under them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
