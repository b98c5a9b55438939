//! An annotated picture of a klog file, for golden files and for people.

use std::ops::Range;
use std::sync::Arc;

use kingtide_base::{FileId, ValueRef};

use super::{IndexReader, KLOG_FOOTER_BYTES, KlogFooter, Properties, TailFault, decode_properties};
use crate::block::{
    Annotated, BlockDictionary, BlockKind, BlockPlace, DataBlock, open_section, readable,
};

/// Every byte of the klog file `bytes` in hex with its meaning, and the entries. Faults are shown where they are; after
/// a fault in footer or index the rest cannot be found and is left out.
#[must_use]
pub fn dump_klog(bytes: &[u8], file: FileId) -> String {
    let mut out = Annotated::new(bytes, &format!("klog {file}"));
    let footer = match KlogFooter::decode(bytes, file, bytes.len() as u64) {
        Ok((footer, _)) => footer,
        Err(TailFault::Newer(version)) => {
            out.remark(&format!(
                "FAULT: version {version} is newer than this build"
            ));
            return out.finish();
        }
        Err(TailFault::Damaged(fault)) => {
            out.fault(&fault);
            return out.finish();
        }
    };
    let end = bytes.len() - KLOG_FOOTER_BYTES;
    let index_at = footer.index_offset as usize;
    let filter_at = footer.filter_offset as usize;
    let properties_at = footer.properties_offset as usize;
    let section = |range: Range<usize>, kind| {
        let place = BlockPlace {
            file,
            offset: range.start as u64,
        };
        open_section(&bytes[range], kind, place)
    };

    let index = section(index_at..filter_at, BlockKind::Index);
    if let Ok((payload, _)) = &index {
        dump_data(&mut out, bytes, file, payload);
    }

    out.heading("index");
    let payload_at = out.block_header(index_at);
    out.field(payload_at..filter_at, "payload");
    match &index {
        Ok((payload, _)) => dump_index(&mut out, payload),
        Err(fault) => out.fault(fault),
    }

    if filter_at < properties_at {
        out.heading("filter");
        let payload_at = out.block_header(filter_at);
        out.field(payload_at..properties_at, "payload");
        if let Err(fault) = section(filter_at..properties_at, BlockKind::Filter) {
            out.fault(&fault);
        }
    }

    out.heading("properties");
    let payload_at = out.block_header(properties_at);
    out.field(payload_at..end, "payload");
    match section(properties_at..end, BlockKind::Properties) {
        Ok((payload, _)) => match decode_properties(&payload, file) {
            Ok(properties) => dump_properties(&mut out, &properties),
            Err(_) => out.remark("FAULT: properties"),
        },
        Err(fault) => out.fault(&fault),
    }
    dump_footer(&mut out, end, &footer);
    out.finish()
}

fn dump_properties(out: &mut Annotated<'_>, properties: &Properties) {
    let Properties {
        order_name,
        meta,
        ranges,
        family,
        dictionary,
    } = properties;
    out.remark(&format!("order {order_name}, {meta:?}"));
    if let Some((id, name)) = family {
        out.remark(&format!("of family {id} {name:?}"));
    }
    if let Some(dictionary) = dictionary {
        let (bytes, blocks) = (dictionary.bytes().len(), dictionary.blocks());
        out.remark(&format!(
            "a dictionary of {bytes} bytes, made of {blocks} blocks"
        ));
    }
    for fragment in ranges {
        let numbers: Vec<String> = fragment
            .sequences()
            .map(|number| number.to_string())
            .collect();
        out.remark(&format!(
            "range delete from {} to {} sequence {}",
            readable(&fragment.start),
            readable(&fragment.end),
            numbers.join(" ")
        ));
    }
}

fn dump_data(out: &mut Annotated<'_>, bytes: &[u8], file: FileId, index: &[u8]) {
    let Ok(mut reader) = IndexReader::new(index) else {
        return;
    };
    let mut start = 0_usize;
    let mut dictionary = Arc::new(BlockDictionary::default());
    while let Ok(Some(entry)) = reader.next_block() {
        let end = start.saturating_add(entry.block_bytes as usize);
        let Some(block_bytes) = bytes.get(start..end) else {
            return;
        };
        out.heading("data block");
        let payload_at = out.block_header(start);
        match DataBlock::decode(block_bytes.to_vec(), file, start as u64) {
            Ok(block) => dump_block(out, block, (start, payload_at), &mut dictionary),
            Err(fault) => {
                out.field(payload_at..end, "payload");
                out.fault(&fault);
            }
        }
        start = end;
    }
}

/// `dictionary` is that of the table, as far as blocks before this one make it.
fn dump_block(
    out: &mut Annotated<'_>,
    mut block: DataBlock,
    (start, payload_at): (usize, usize),
    dictionary: &mut Arc<BlockDictionary>,
) {
    let columns = block.columns();
    out.field(payload_at..start + columns[0].1.start, "column header");
    for (name, range) in columns {
        out.field(start + range.start..start + range.end, name);
    }
    let mut values = Vec::new();
    let decompressed = block
        .set_dictionary(dictionary)
        .and_then(|()| block.decompress_values(&mut values));
    match decompressed {
        Ok(()) if dictionary.is_full() => {}
        Ok(()) => Arc::make_mut(dictionary).add(&values),
        Err(fault) => out.fault(&fault),
    }
    let mut key = Vec::new();
    for index in 0..block.entries() {
        block.copy_key(index, &mut key);
        let value = match block.value(index, &values) {
            Ok(ValueRef::Inline(value)) => readable(value),
            Ok(ValueRef::Separated(pointer)) => format!("{pointer:?}"),
            Err(fault) => format!("FAULT: {fault}"),
        };
        out.remark(&format!(
            "{} sequence {} {:?} expires {} {value}",
            readable(&key),
            block.sequence(index),
            block.kind(index),
            block.expires_at(index),
        ));
    }
}

fn dump_index(out: &mut Annotated<'_>, payload: &[u8]) {
    let Ok(mut reader) = IndexReader::new(payload) else {
        out.remark("FAULT: index");
        return;
    };
    loop {
        match reader.next_block() {
            Ok(Some(entry)) => out.remark(&format!(
                "block of {} bytes up to {}",
                entry.block_bytes,
                readable(entry.separator)
            )),
            Ok(None) => return,
            Err(_) => {
                out.remark("FAULT: index");
                return;
            }
        }
    }
}

fn dump_footer(out: &mut Annotated<'_>, start: usize, footer: &KlogFooter) {
    out.heading("footer");
    out.fields(
        start,
        &[
            (8, "index offset"),
            (8, "filter offset"),
            (8, "properties offset"),
            (8, "index checksum"),
            (8, "filter checksum"),
            (8, "properties checksum"),
            (4, "data blocks"),
            (1, "codec"),
            (3, "zero"),
            (8, "digest of the data blocks"),
            (8, "checksum"),
            (4, "version"),
            (4, "footer bytes"),
            (8, "magic"),
        ],
    );
    out.remark(&format!("{footer:?}"));
}
