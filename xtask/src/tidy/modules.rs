//! The layers of the modules inside the engine crate: a module names modules of its own line or above.
//!
//! A module is known by the first folder or file below the crate's `src`. An item that `lib.rs` re-exports counts as
//! its module: `crate::Error` is `error`. `lib.rs` itself and test code are free.

use std::collections::BTreeMap;

use super::{
    Finding, Sources,
    config::{MODULE_LAYERS, MODULE_ROOT},
    source::{NamedPath, Source},
};

/// Checks the engine crate.
pub fn check(sources: &Sources<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root_path = format!("{MODULE_ROOT}lib.rs");
    let exports = sources
        .get(root_path.as_str())
        .map(re_exports)
        .unwrap_or_default();
    for (path, source) in sources {
        let Some(relative) = path.strip_prefix(MODULE_ROOT) else {
            continue;
        };
        let place = module_path(relative);
        let Some(module) = place.first().filter(|module| **module != "lib") else {
            continue;
        };
        let Some(own_layer) = layer_of(module) else {
            findings.push(Finding::new(
                path,
                1,
                format!("module `{module}` has no layer: add it to MODULE_LAYERS in xtask/src/tidy/config.rs"),
            ));
            continue;
        };
        for named in source.named_paths() {
            let Some(target) = target_module(&named, &place, &exports) else {
                continue;
            };
            let is_above = layer_of(target).is_none_or(|layer| layer <= own_layer);
            if !is_above && !source.is_test(named.token) {
                findings.push(Finding::new(
                    path,
                    source.line(named.token),
                    format!(
                        "`{module}` names `{target}`, which stands below it: pass what is needed in, or move the item up (ARCHITECTURE.md)"
                    ),
                ));
            }
        }
    }
    findings
}

fn layer_of(module: &str) -> Option<usize> {
    MODULE_LAYERS
        .iter()
        .position(|layer| layer.contains(&module))
}

/// `wal/segment.rs` is `[wal, segment]`; `wal/mod.rs` is `[wal]`.
fn module_path(relative: &str) -> Vec<&str> {
    let stem = relative.strip_suffix(".rs").unwrap_or(relative);
    stem.strip_suffix("/mod")
        .unwrap_or(stem)
        .split('/')
        .collect()
}

/// Names that `lib.rs` re-exports, with the module each comes from.
fn re_exports<'a>(lib: &Source<'a>) -> BTreeMap<&'a str, &'a str> {
    lib.named_paths()
        .into_iter()
        .filter_map(|named| {
            let segments: Vec<&str> = named
                .segments
                .iter()
                .copied()
                .filter(|segment| !matches!(*segment, "crate" | "self"))
                .collect();
            let module = segments
                .first()
                .filter(|module| layer_of(module).is_some())?;
            let name = segments.last().filter(|name| **name != "*")?;
            Some((*name, *module))
        })
        .collect()
}

/// The top module that `named` leads to from a file at `place`, if it leads into this crate.
fn target_module<'a>(
    named: &NamedPath<'a>,
    place: &[&'a str],
    exports: &BTreeMap<&'a str, &'a str>,
) -> Option<&'a str> {
    let supers = named
        .segments
        .iter()
        .take_while(|segment| **segment == "super")
        .count();
    let first = match *named.segments.first()? {
        "crate" => named.segments[1],
        "super" if supers >= place.len() => named.segments.get(supers)?,
        _ => return None,
    };
    Some(exports.get(first).copied().unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Tree, source::parse_tree},
        *,
    };

    fn messages(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (
                "crates/kingtide/src/lib.rs",
                "mod db; mod error; pub use db::Db; pub use db::*; pub use error::{Error, Result};",
            ),
            (path, text),
        ]);
        check(&parse_tree(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_module_names_only_its_own_line_and_above() {
        for (text, target) in [
            ("use crate::txn::Begin;", "txn"),
            ("use crate::{error::Error, db};", "db"),
            ("fn f() { crate::flush::run() }", "flush"),
            ("use super::super::read::get;", "read"),
            ("use crate::Db;", "db"),
        ] {
            let found = messages("crates/kingtide/src/wal/writer.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].contains(&format!("`wal` names `{target}`")),
                "{found:?}"
            );
        }
        for text in [
            "use crate::{Result, error::Error, memtable::Sealed, wal::reader};",
            "use super::segment; use super::super::version::Version;",
            "#[cfg(test)]\nmod tests { use crate::db::Db; }",
            "/// See [`Db`](crate::Db).\nfn f() {}",
            "use super::super::*;",
        ] {
            assert_eq!(
                messages("crates/kingtide/src/wal/writer.rs", text),
                Vec::<String>::new(),
                "{text}"
            );
        }
    }

    #[test]
    fn every_module_has_a_layer() {
        let found = messages("crates/kingtide/src/extra/mod.rs", "fn f() {}");
        assert!(
            found.len() == 1 && found[0].contains("has no layer"),
            "{found:?}"
        );
        assert_eq!(
            messages("crates/kingtide/src/db.rs", "use crate::wal;"),
            Vec::<String>::new()
        );
        assert_eq!(
            messages("crates/table/src/extra.rs", "use crate::db;"),
            Vec::<String>::new()
        );
    }
}
