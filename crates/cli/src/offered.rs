//! Arguments that are one of a few names: help texts and completion scripts offer the names. What is taken is whatever the
//! type itself understands, which may be more, such as other spellings.

use std::{ffi::OsStr, str::FromStr};

use clap::{
    Arg, Command,
    builder::{PossibleValue, TypedValueParser},
};

/// Takes what `parse` understands, and offers names.
#[derive(Clone)]
pub(crate) struct Offered<T> {
    names: Vec<&'static str>,
    parse: fn(&str) -> Result<T, String>,
}

/// Offers `names`, each of which `parse` must understand.
pub(crate) fn offered<T>(
    names: impl IntoIterator<Item = &'static str>,
    parse: fn(&str) -> Result<T, String>,
) -> Offered<T> {
    Offered {
        names: names.into_iter().collect(),
        parse,
    }
}

/// Offers every choice by its name.
pub(crate) fn choice<T: Copy + FromStr<Err = String>>(
    all: &[T],
    name: fn(T) -> &'static str,
) -> Offered<T> {
    offered(all.iter().map(|choice| name(*choice)), T::from_str)
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Offered<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}
