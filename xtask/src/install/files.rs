//! The texts that tell build systems where the library is.
//!
//! Two packages of one library: `kingtide`, and `tidesdb` for programs that were written for libtidesdb. The linker is
//! given the name of the package; at run time both are `libtidesdb.so.9`.

/// What a program that links the archive needs besides.
const PRIVATE_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// One of the names under which the library is found.
pub(super) struct Package {
    pub(super) name: &'static str,
    version: &'static str,
    description: &'static str,
}

impl Package {
    pub(super) fn kingtide() -> Self {
        Self {
            name: "kingtide",
            version: env!("CARGO_PKG_VERSION"),
            description: "Embedded transactional key-value store",
        }
    }

    /// `version` is the version of libtidesdb that it says it is.
    pub(super) fn tidesdb(version: &'static str) -> Self {
        Self {
            name: "tidesdb",
            version,
            description: "Kingtide through the interface of libtidesdb",
        }
    }

    pub(super) fn pkg_config(&self, prefix: &str) -> String {
        let Self {
            name,
            version,
            description,
        } = self;
        // A blank would end a flag.
        let prefix = prefix.replace(' ', "\\ ");
        let include = if *name == "tidesdb" {
            // Both `#include <tidesdb/tidesdb.h>` and `#include <tidesdb.h>` are in use.
            "-I${includedir} -I${includedir}/tidesdb"
        } else {
            "-I${includedir}"
        };
        format!(
            "prefix={prefix}\n\
             libdir=${{prefix}}/lib\n\
             includedir=${{prefix}}/include\n\
             \n\
             Name: {name}\n\
             Description: {description}\n\
             Version: {version}\n\
             Cflags: {include}\n\
             Libs: -L${{libdir}} -l{name}\n\
             Libs.private: {PRIVATE_LIBRARIES}\n"
        )
    }

    pub(super) fn cmake_config(&self) -> String {
        let name = self.name;
        let target = |kind: &str, target: &str, file: &str, more: &str| {
            format!(
                "if(NOT TARGET {target})\n  \
                   add_library({target} {kind} IMPORTED)\n  \
                   set_target_properties({target} PROPERTIES\n    \
                     IMPORTED_LOCATION \"${{_{name}_prefix}}/lib/{file}\"\n    \
                     {more}\n    \
                     INTERFACE_INCLUDE_DIRECTORIES \"${{_{name}_prefix}}/include\")\n\
                 endif()\n"
            )
        };
        let shared = format!("lib{name}.so");
        let soname = "IMPORTED_SONAME \"libtidesdb.so.9\"";
        let mut text = format!(
            "# Where {name} is: the target {name}::{name}.\n\
             get_filename_component(_{name}_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n"
        );
        text += &target("SHARED", &format!("{name}::{name}"), &shared, soname);
        if name == "tidesdb" {
            // The spelling of the project's name.
            text += &target("SHARED", "TidesDB::tidesdb", &shared, soname);
        } else {
            let libraries = PRIVATE_LIBRARIES
                .split(' ')
                .map(|flag| flag.trim_start_matches("-l"))
                .collect::<Vec<_>>()
                .join(";");
            let link = format!("INTERFACE_LINK_LIBRARIES \"{libraries}\"");
            text += &target(
                "STATIC",
                "kingtide::kingtide_static",
                "libkingtide.a",
                &link,
            );
        }
        text += &format!("unset(_{name}_prefix)\n");
        text
    }

    /// Versions up to this one are satisfied: of the same major version, and below 1 also of the same minor one.
    pub(super) fn cmake_version(&self) -> String {
        let (name, version) = (self.name, self.version);
        let mut parts = version.split('.');
        let major = parts.next().unwrap_or_default();
        let minor = parts.next().unwrap_or_default();
        let same_minor = if major == "0" {
            format!(" AND PACKAGE_FIND_VERSION_MINOR EQUAL {minor}")
        } else {
            String::new()
        };
        format!(
            "# Which versions of {name} this one can stand for.\n\
             set(PACKAGE_VERSION \"{version}\")\n\
             if(PACKAGE_FIND_VERSION_MAJOR EQUAL {major}{same_minor} AND NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n  \
               set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  \
               if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n    \
                 set(PACKAGE_VERSION_EXACT TRUE)\n  \
               endif()\n\
             else()\n  \
               set(PACKAGE_VERSION_COMPATIBLE FALSE)\n\
             endif()\n"
        )
    }
}

/// The header that tells the version, saying `to` instead of `from`.
pub(super) fn version_header(text: &str, from: &str, to: &str) -> String {
    let names = ["MAJOR", "MINOR", "PATCH"];
    let mut text = text.replace(from, to);
    for ((name, from), to) in names.into_iter().zip(from.split('.')).zip(to.split('.')) {
        text = text.replace(
            &format!("#define TIDESDB_VERSION_{name} {from}\n"),
            &format!("#define TIDESDB_VERSION_{name} {to}\n"),
        );
    }
    text
}

/// The main header as version 9.3.6 had it: without two fields of the statistics of a database.
///
/// # Errors
/// In words, when the header is not as expected: the library would be told apart from it by nobody.
pub(super) fn older_header(text: &str) -> Result<String, String> {
    let fields = "    uint64_t primary_epoch;\n    uint64_t seen_epoch;\n";
    match text.split_once(fields) {
        Some((before, after)) => Ok(format!("{before}{after}").replace("9.3.14", "9.3.6")),
        None => Err("tidesdb.h: the fields that 9.3.6 lacks are not where they were".to_owned()),
    }
}

/// The names in the list of commands of a help text.
pub(super) fn commands_in_help(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        // A name is indented by two; text that goes on from the line above by more.
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}
