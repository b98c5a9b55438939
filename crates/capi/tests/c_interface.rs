//! The C library as C sees it: every program of `tests/c`, compiled with all warnings as errors by each compiler that is
//! there, and run; the layout of the structs, their defaults and the exported symbols against the tables in `abi/`.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

fn manifest_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that was built with this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let library = test.with_file_name("libkingtide_capi.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// The C compilers of this machine.
fn compilers() -> Vec<&'static str> {
    let found: Vec<_> = ["gcc", "clang"]
        .into_iter()
        .filter(|name| has(name))
        .collect();
    assert!(!found.is_empty(), "no C compiler");
    found
}

/// Runs a command; shows what it printed when it fails.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{errors}",
        output.status
    );
    text
}

/// Compiles `source` and answers the program.
fn compile(compiler: &str, source: &Path, directory: &Path) -> PathBuf {
    let name = source.file_stem().expect("a source has a name");
    let program = directory.join(format!("{}-{compiler}", name.to_string_lossy()));
    let library = installed_in(directory);
    run(Command::new(compiler)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
        ])
        .arg(format!(
            "-I{}",
            manifest_directory().join("include").display()
        ))
        .arg(format!(
            "-I{}",
            manifest_directory().join("tests/c").display()
        ))
        .args((tool() == Tool::AddressSanitizer).then_some("-fsanitize=address"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", library.display()))
        .arg("-ltidesdb")
        .arg(format!("-Wl,-rpath,{}", library.display())));
    program
}

/// The library in a folder of `directory`, under the names that programs know.
fn installed_in(directory: &Path) -> PathBuf {
    let place = directory.join("lib");
    if !place.exists() {
        fs::create_dir(&place).expect("a directory");
        for name in ["libtidesdb.so", "libtidesdb.so.9"] {
            symlink(library(), place.join(name)).expect("a link");
        }
    }
    place
}

/// What watches the programs while they run, as `KINGTIDE_CAPI_TOOL` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    None,
    AddressSanitizer,
    Valgrind,
}

fn tool() -> Tool {
    match setting("KINGTIDE_CAPI_TOOL", "").as_str() {
        "" => Tool::None,
        "asan" => Tool::AddressSanitizer,
        "valgrind" => Tool::Valgrind,
        other => panic!("KINGTIDE_CAPI_TOOL is asan, valgrind or not set, and not {other:?}"),
    }
}

/// Compiles one of the programs with each compiler, and runs it with a directory of its own under `parent`.
fn check_program_in(parent: &Path, name: &str, arguments: &[&str]) {
    let directory = tempfile::tempdir_in(parent).expect("a temporary directory");
    let source = manifest_directory().join("tests/c").join(name);
    // A tool watches what the program does, which the compiler does not change; and long ones are run once.
    let is_once = tool() != Tool::None || !arguments.is_empty();
    let count = if is_once { 1 } else { usize::MAX };
    for compiler in compilers().into_iter().take(count) {
        let program = compile(compiler, &source, directory.path());
        let data = directory.path().join(format!("data-{compiler}"));
        fs::create_dir(&data).expect("a directory");
        let mut command = if tool() == Tool::Valgrind {
            let mut command = Command::new("valgrind");
            // A forked child ends without what its parent's threads had on their stacks.
            let leaks = if name == "misuse.c" { "no" } else { "full" };
            command
                .args(["--quiet", "--show-leak-kinds=definite"])
                .args(["--errors-for-leak-kinds=definite", "--error-exitcode=99"])
                .arg(format!("--leak-check={leaks}"))
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        run(command.arg(data).args(arguments));
    }
}

/// A place for databases in memory, where there is one: for programs that are not about the disk.
fn in_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        env::temp_dir()
    }
}

fn check_program(name: &str) {
    check_program_in(&env::temp_dir(), name, &[]);
}

#[test]
fn transactions_and_iterators() {
    check_program("transactions.c");
}

#[test]
fn databases_and_families() {
    check_program("families.c");
}

// Promise: input.
#[test]
fn misuse_is_answered_with_an_error() {
    check_program("misuse.c");
}

#[test]
fn commit_hooks() {
    check_program("hooks.c");
}

#[test]
fn additions_of_kingtide_h() {
    check_program("additions.c");
}

#[test]
fn backups_and_checkpoints() {
    check_program("copies.c");
}

#[test]
fn maintenance_and_statistics() {
    check_program("maintenance.c");
}

#[test]
fn failures_of_the_world() {
    check_program("failures.c");
}

#[test]
fn settings_in_files() {
    check_program("ini.c");
}

/// A number from the environment, so that continuous integration may ask for more than a developer waits for.
fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

#[test]
fn nothing_is_left_behind_by_opening_and_closing() {
    // In memory where there is such a place: this is not about the disk.
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        env::temp_dir()
    };
    check_program_in(
        &parent,
        "cycles.c",
        &[&setting("KINGTIDE_CAPI_CYCLES", "100")],
    );
}

#[test]
fn threads_agree_with_a_model_while_families_come_and_go() {
    let seconds = setting("KINGTIDE_CAPI_STRESS_SECONDS", "3");
    let seed = setting("KINGTIDE_CAPI_SEED", "1");
    check_program_in(&in_memory(), "stress.c", &[&seconds, &seed]);
}

/// A header without its comments.
fn without_comments(path: &str) -> String {
    let text = fs::read_to_string(manifest_directory().join(path)).expect("a header of the crate");
    text.split("/*")
        .enumerate()
        .map(|(index, part)| match part.split_once("*/") {
            Some((_, behind)) if index > 0 => behind,
            _ => part,
        })
        .collect()
}

fn table(name: &str) -> Vec<Vec<String>> {
    let path = manifest_directory().join("abi").join(name);
    let text = fs::read_to_string(path).expect("the tables are part of the crate");
    let rows = text
        .lines()
        .skip(1)
        .map(|line| line.split('\t').map(str::to_owned).collect());
    rows.collect()
}

#[test]
fn exported_symbols_are_the_interface_and_nothing_else() {
    let text = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library()));
    let exported: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let functions = table("functions.tsv");
    for row in &functions {
        assert!(
            exported.contains(row[0].as_str()),
            "{} is not exported",
            row[0]
        );
    }
    let names: BTreeSet<&str> = functions.iter().map(|row| row[0].as_str()).collect();
    let header = without_comments("include/kingtide.h");
    for symbol in &exported {
        let is_addition = symbol.starts_with("kt_") && header.contains(&format!("{symbol}("));
        assert!(
            names.contains(symbol) || is_addition,
            "{symbol} is exported"
        );
    }
    let declared = header
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(')
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("kt_"));
    for name in declared {
        assert!(
            exported.contains(name),
            "{name} is in the header and not exported"
        );
    }
}

#[test]
fn the_library_knows_itself_as_libtidesdb_9() {
    let text = run(Command::new("readelf").args(["-d"]).arg(library()));
    assert!(text.contains("Library soname: [libtidesdb.so.9]"), "{text}");
}

/// A C program that the compiler accepts only when all structs, constants and functions are as in the tables, and that
/// checks the defaults when it runs.
fn layout_program() -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <string.h>\n#include <tidesdb/db.h>\n#include <tidesdb/tidesdb_version.h>\n",
    );
    for row in table("structs.tsv") {
        let [name, field, offset, size] = row.as_slice() else {
            panic!("{row:?}")
        };
        if field == "(total)" {
            text += &format!("_Static_assert(sizeof({name}) == {size}, \"{name}\");\n");
            continue;
        }
        let field = field.rsplit([' ', '*']).next().unwrap_or(field);
        let field = field.split('[').next().unwrap_or(field);
        text += &format!(
            "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");\n"
        );
        text += &format!(
            "_Static_assert(sizeof((({name} *)0)->{field}) == {size}, \"{name}.{field}\");\n"
        );
    }
    for row in table("constants.tsv") {
        text += &format!(
            "_Static_assert({} == {}, \"{}\");\n",
            row[0], row[1], row[0]
        );
    }
    for row in table("functions.tsv") {
        let (name, returns, arguments) = (&row[0], &row[1], &row[2]);
        text += &format!("{returns} {name}({arguments});\n");
    }
    text += "int main(void) {\n";
    for (struct_name, variable, function) in [
        (
            "tidesdb_column_family_config_t",
            "f",
            "tidesdb_default_column_family_config",
        ),
        ("tidesdb_config_t", "d", "tidesdb_default_config"),
        (
            "tidesdb_objstore_config_t",
            "o",
            "tidesdb_objstore_default_config",
        ),
    ] {
        text += &format!("    {struct_name} {variable} = {function}();\n");
        for row in table("defaults.tsv")
            .iter()
            .filter(|row| row[0] == struct_name)
        {
            let (field, value) = (&row[1], row.get(2).map_or("", String::as_str));
            text += &match (field.as_str(), value) {
                ("db_path" | "comparator_name", value) => {
                    format!(
                        "    if (strcmp({variable}.{field}, \"{value}\") != 0) return __LINE__;\n"
                    )
                }
                ("skip_list_probability" | "unified_memtable_skip_list_probability", value) => {
                    format!("    if ({variable}.{field} != (float){value}) return __LINE__;\n")
                }
                (_, value) => format!("    if ({variable}.{field} != {value}) return __LINE__;\n"),
            };
        }
    }
    text += "    if (o.local_cache_path != NULL) return 1;\n";
    text += "    if (d.object_store != NULL || d.object_store_config != NULL) return 1;\n";
    text += "    if (strcmp(TIDESDB_VERSION, \"9.3.14\") != 0) return 1;\n    return 0;\n}\n";
    text
}

#[test]
fn structs_constants_signatures_and_defaults_are_those_of_the_tables() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("layout.c");
    fs::write(&source, layout_program()).expect("a file");
    for compiler in compilers() {
        let program = compile(compiler, &source, directory.path());
        run(&mut Command::new(program));
    }
}

#[test]
fn the_headers_are_plain_c_and_cplusplus() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let include = format!("-I{}", manifest_directory().join("include").display());
    let checks = [
        ("gcc", "c", "-std=c11"),
        ("clang", "c", "-std=c11"),
        ("g++", "c++", "-std=c++17"),
        ("clang++", "c++", "-std=c++17"),
    ];
    for (compiler, language, standard) in checks.into_iter().filter(|(name, ..)| has(name)) {
        for header in ["tidesdb/tidesdb.h", "tidesdb/db.h", "kingtide.h"] {
            let source = directory.path().join("header");
            fs::write(
                &source,
                format!("#include <{header}>\nint main(void) {{ return 0; }}\n"),
            )
            .expect("a file");
            run(Command::new(compiler)
                .args([
                    "-x",
                    language,
                    standard,
                    "-Wall",
                    "-Wextra",
                    "-Wpedantic",
                    "-Werror",
                ])
                .args(["-fsyntax-only", &include])
                .arg(&source));
        }
    }
}
