//! Each ban where it fires and where it does not.

use super::{
    super::{Tree, source::parse_tree},
    *,
};

/// The messages for one file, with their lines.
fn messages(path: &str, text: &str) -> Vec<String> {
    check(&parse_tree(&Tree::of(&[(path, text)])))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn fires(path: &str, text: &str, part: &str) {
    let found = messages(path, text);
    assert!(
        found.len() == 1 && found[0].contains(part),
        "{path}: {text}: {found:?}"
    );
}

fn is_silent(path: &str, text: &str) {
    assert_eq!(messages(path, text), Vec::<String>::new(), "{path}: {text}");
}

const ENGINE: &str = "crates/table/src/writer.rs";

#[test]
fn engine_code_does_not_name_the_world() {
    fires(ENGINE, "use std::fs::File;", "`std::fs::File` is banned");
    fires(
        ENGINE,
        "use std::{\n sync::{Arc,\n Mutex}};",
        "writer.rs:3: `std::sync::Mutex`",
    );
    fires(ENGINE, "fn f() { std::thread::yield_now(); }", "Env::spawn");
    fires(
        ENGINE,
        "use core::sync::atomic::AtomicU64;",
        "kingtide_env::sync::atomic",
    );
    fires(
        ENGINE,
        "use std::time::{Duration, Instant};",
        "monotonic_nanos",
    );
    fires(ENGINE, "fn f() { std::process::exit(1) }", "the caller's");
    fires(ENGINE, "fn f() { fastrand::u8(..); }", "fill_random");
    fires("crates/env/src/world.rs", "use std::fs;", "is banned");
}

#[test]
fn modules_that_hide_banned_items_are_named_by_item() {
    fires(ENGINE, "use std::sync;", "name the items");
    fires(ENGINE, "use std::time::*;", "name the items");
    fires(ENGINE, "use std::{sync as s};", "name the items");
}

#[test]
fn allowed_items_tests_and_other_crates_are_free() {
    is_silent(ENGINE, "use std::{sync::{Arc, OnceLock}, time::Duration};");
    is_silent(
        ENGINE,
        "// std::fs\nconst A: &str = \"std::fs::File println!()\";",
    );
    is_silent(
        ENGINE,
        "#[cfg(test)]\nmod tests { use std::fs; fn f() { println!(); } }",
    );
    is_silent("crates/table/src/writer/tests.rs", "use std::thread;");
    is_silent("crates/table/tests/all.rs", "use std::fs;");
    is_silent(
        "crates/cli/src/main.rs",
        "use std::fs; fn f() { println!(); }",
    );
    is_silent(
        "crates/env/src/posix/file.rs",
        "use std::fs; use std::sync::Mutex;",
    );
    is_silent("crates/env/src/threads.rs", "use std::thread;");
    is_silent(ENGINE, "use crate::fs; use other::std::fs_like;");
}

#[test]
fn engine_code_does_not_print() {
    fires(
        ENGINE,
        "fn f() { println!(\"x\"); }",
        "`println!` is banned",
    );
    fires(
        ENGINE,
        "fn f() { eprintln!(\"x\"); }",
        "`eprintln!` is banned",
    );
    is_silent(ENGINE, "fn f() { writeln!(out, \"x\"); self.println(); }");
}

#[test]
fn unsafe_stands_in_its_places() {
    fires(
        ENGINE,
        "fn f() { unsafe { g() } }",
        "`unsafe` may stand only in",
    );
    fires(
        "crates/env/src/memory/mod.rs",
        "unsafe impl Send for X {}",
        "`unsafe`",
    );
    is_silent(
        "crates/collections/src/arena.rs",
        "fn f() { unsafe { g() } }",
    );
    is_silent("crates/env/src/posix/window.rs", "unsafe fn f() {}");
    is_silent("crates/bench/src/engines/peer.rs", "unsafe fn f() {}");
    is_silent(ENGINE, "#![forbid(unsafe_code)] // unsafe");
}

#[test]
fn leftovers_are_found() {
    fires("crates/cli/src/main.rs", "fn f() { todo!() }", "`todo!`");
    fires(
        "crates/cli/src/main.rs",
        "fn f() { unimplemented!(\"x\") }",
        "`unimplemented!`",
    );
    fires("crates/cli/src/main.rs", "fn f() { dbg!(x); }", "`dbg!`");
    fires(ENGINE, "#[test]\n#[ignore]\nfn f() {}", "ignored test");
    fires(
        ENGINE,
        "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
        "ignored test",
    );
    is_silent(ENGINE, "fn todo() { ignore(); } // todo!()");
}

#[test]
fn unwrap_is_for_tests_and_expect_has_a_reason() {
    fires(
        ENGINE,
        "fn f() { g().unwrap(); }",
        "`.unwrap()` outside of tests",
    );
    fires(
        ENGINE,
        "fn f() { g().expect(\"oops\"); }",
        "without a reason",
    );
    is_silent(ENGINE, "fn f() { g().unwrap_or(1); unwrap(); }");
    is_silent(
        ENGINE,
        "fn f() { g().expect(\"the header was checked above\"); }",
    );
    is_silent(ENGINE, "#[test]\nfn f() { g().unwrap(); }");
}
