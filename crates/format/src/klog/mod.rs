//! The parts of a klog file besides its blocks: index, properties, footer; and the dump of a whole file.
//! `docs/formats/klog.md` is the specification.

mod dump;
mod footer;
mod index;
mod properties;

pub use dump::dump_klog;
pub use footer::{
    FOOTER_READ_BYTES, KLOG_FOOTER_BYTES, KLOG_VERSION, KLOG_VERSION_CONTENT, KLOG_VERSION_FAMILY,
    KLOG_VERSION_PLAIN, KlogFooter, Tail, TailFault, open_tail, seal_tail,
};
pub use index::{IndexBuilder, IndexEntry, IndexReader, shortest_separator};
pub use properties::{OfFamily, Properties, decode_properties, encode_properties};

#[cfg(test)]
mod tests;
