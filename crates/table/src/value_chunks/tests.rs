//! Values in chunks, whole and damaged.

use kingtide_base::FileId;
use kingtide_env::{Directory, Env, MemoryEnv, OpenMode};

use super::*;
use crate::{ValueFiles, vlog_name};

const FILE: FileId = FileId(9);

fn directory() -> Arc<dyn Directory> {
    let env = MemoryEnv::new(5);
    env.open_directory(std::path::Path::new("vlog"), true)
        .expect("a directory")
}

fn write(directory: &Arc<dyn Directory>, chunks: &[&[u8]]) -> (ValueFileMeta, ValuePointer) {
    let name = vlog_name(FILE);
    let file = directory.open(&name, OpenMode::CreateNew).expect("new");
    let budget = MemoryBudget::unlimited();
    let mut writer = SpilledValueWriter::new(file, (FILE, CodecId::Lz4), b"key", &budget);
    for chunk in chunks {
        writer.append(chunk).expect("room");
    }
    writer.finish().expect("room")
}

#[test]
fn a_value_comes_back_as_a_whole_and_in_pieces() {
    let long = vec![b'l'; SpilledValueWriter::CHUNK_BYTES];
    let mixed: Vec<u8> = (0..700_000_u32)
        .map(|at| (at.wrapping_mul(at) >> 7) as u8)
        .collect();
    let cases: [&[&[u8]]; 4] = [
        &[],
        &[b"short"],
        &[b"one", b"two", b"three"],
        &[&long, &mixed],
    ];
    for chunks in cases {
        let directory = directory();
        let (meta, pointer) = write(&directory, chunks);
        let files = ValueFiles::new(directory, 4);
        let wanted = chunks.concat();
        assert_eq!(pointer.value_bytes as usize, wanted.len());
        assert_eq!(files.read(&pointer, b"key").expect("intact"), wanted);
        let mut pieces = Vec::new();
        files
            .stream(&pointer, b"key", &mut |piece| {
                pieces.push(piece.to_vec());
                Ok(())
            })
            .expect("intact");
        assert_eq!(pieces.concat(), wanted);
        // A short one is one piece, an empty one too.
        assert!(pieces.len() <= chunks.len().max(1));
        assert!(files.read(&pointer, b"another").is_err());
        assert!(
            files
                .stream(&pointer, b"another", &mut |_| panic!("not its value"))
                .is_err()
        );
        files.verify_file(&meta, &mut |_| {}).expect("intact");
    }
}

/// Goal: no changed byte of the file is handed out. Method: every byte of a file of three chunks is changed, one at a time.
#[test]
fn every_changed_byte_is_noticed_before_it_is_handed_out() {
    let chunks: [&[u8]; 3] = [&[b'a'; 40], b"bcdefghijklmnop", &[b'c'; 90]];
    let source = directory();
    let (meta, pointer) = write(&source, &chunks);
    let file = source.open(&vlog_name(FILE), OpenMode::Read).expect("it");
    let mut intact = vec![0; meta.file_bytes as usize];
    assert_eq!(file.read_at(&mut intact, 0).expect("it"), intact.len());
    let wanted = chunks.concat();
    for at in 0..intact.len() {
        let mut bytes = intact.clone();
        bytes[at] ^= 0x21;
        let directory = directory();
        let file = directory.open(&vlog_name(FILE), OpenMode::CreateNew);
        file.expect("new").write_at(&bytes, 0).expect("room");
        let files = ValueFiles::new(directory, 4);
        assert!(files.verify_file(&meta, &mut |_| {}).is_err(), "byte {at}");
        let mut found = Vec::new();
        let streamed = files.stream(&pointer, b"key", &mut |piece| {
            found.extend_from_slice(piece);
            Ok(())
        });
        assert!(wanted.starts_with(&found), "byte {at}");
        let is_in_footer = at as u64 >= pointer.offset + u64::from(pointer.record_bytes);
        assert_eq!(streamed.is_ok(), is_in_footer, "byte {at}");
        assert_eq!(
            files.read(&pointer, b"key").is_ok(),
            is_in_footer,
            "byte {at}"
        );
    }
}

/// Goal: chunks in another order, or fewer of them, are no value. Method: two chunks of one length change places; a pointer
/// that ends early.
#[test]
fn chunks_stay_in_their_places() {
    let source = directory();
    let (meta, pointer) = write(&source, &[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
    let file = source
        .open(&vlog_name(FILE), OpenMode::ReadWrite)
        .expect("it");
    let mut bytes = vec![0; meta.file_bytes as usize];
    file.read_at(&mut bytes, 0).expect("it");
    let (first, second) = (32 + 25, 32 + 25 + 29);
    let swapped = [&bytes[second..second + 29], &bytes[first..first + 29]].concat();
    file.write_at(&swapped, first as u64).expect("room");
    let files = ValueFiles::new(source, 4);
    assert!(files.read(&pointer, b"key").is_err());
    let shorter = ValuePointer {
        record_bytes: pointer.record_bytes - 29,
        ..pointer
    };
    assert!(files.read(&shorter, b"key").is_err());
}
