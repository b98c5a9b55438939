use super::*;
use crate::testing::Random;

/// The shortest match, which a length of 0 stands for.
const MATCH_BYTES_MIN: usize = 4;
/// The format wants the last match to begin so many bytes before the end at least, and to end so many before it.
const LAST_MATCH_BEGINS: usize = 12;
const LAST_LITERALS: usize = 5;

/// Bytes of one of four kinds: noise, words, runs, counting.
fn some_bytes(kind: usize, bytes: usize, random: &mut Random) -> Vec<u8> {
    let mut some = Vec::new();
    while some.len() < bytes {
        match kind {
            0 => some.push(random.below(256) as u8),
            1 => {
                let words: [&[u8]; 5] = [b"tide ", b"king", b"the sea ", b", ", b"level "];
                some.extend_from_slice(words[random.below(words.len())]);
            }
            2 => {
                let (byte, count) = (random.below(256) as u8, random.below(90));
                some.extend(std::iter::repeat_n(byte, count));
            }
            _ => {
                let begin = random.below(256);
                some.extend((begin..begin + 300).map(|byte| byte as u8));
            }
        }
    }
    some.truncate(bytes);
    some
}

/// What the format says a block with a dictionary is, byte by byte; checks what it says of the end of a block.
fn decode_naively(dictionary: &[u8], stored: &[u8]) -> Vec<u8> {
    let mut out = dictionary.to_vec();
    let (mut at, mut last_match) = (0, None);
    let length = |four: u8, at: &mut usize| {
        let mut length = usize::from(four);
        let mut goes_on = four == 15;
        while goes_on {
            length += usize::from(stored[*at]);
            goes_on = stored[*at] == 255;
            *at += 1;
        }
        length
    };
    loop {
        let token = stored[at];
        at += 1;
        let literals = length(token >> 4, &mut at);
        out.extend_from_slice(&stored[at..at + literals]);
        at += literals;
        if at == stored.len() {
            if let Some(begin) = last_match {
                assert!(literals >= LAST_LITERALS && out.len() - begin >= LAST_MATCH_BEGINS);
            }
            return out.split_off(dictionary.len());
        }
        let offset = usize::from(u16::from_le_bytes([stored[at], stored[at + 1]]));
        at += 2;
        last_match = Some(out.len());
        for _ in 0..length(token & 15, &mut at) + MATCH_BYTES_MIN {
            out.push(out[out.len() - offset]);
        }
    }
}

/// Goal: what is compressed with a dictionary is what comes out, from the decoder here and from one that follows the format to
/// the letter. Method: bytes of all kinds and lengths, with dictionaries of all kinds and lengths.
#[test]
fn what_is_compressed_comes_out_again() {
    let mut random = Random::new(11);
    for case in 0..600 {
        let bytes = [1, 3, 4, 7, 100, 4096, 40_000][random.below(7)];
        let dictionary = some_bytes(case % 4, bytes, &mut random);
        let mut prepared = Lz4Dictionary::new(dictionary.clone());
        for kind in 0..4 {
            let bytes = [0, 1, 5, 11, 12, 13, 14, 20, 270, 5000, 20_000][random.below(11)];
            let raw = some_bytes(kind, bytes, &mut random);
            let mut stored = b"before".to_vec();
            assert!(prepared.compress(&raw, &mut stored));
            assert_eq!(stored[..6], *b"before");
            let stored = &stored[6..];
            assert_eq!(decode_naively(&dictionary, stored), raw, "{case} {kind}");
            let mut found = vec![7; 3];
            assert!(lz4_with_dictionary(
                &dictionary,
                stored,
                raw.len(),
                &mut found
            ));
            assert_eq!(found, raw, "{case} {kind}");
            if !raw.is_empty() {
                let less = raw.len() - 1;
                assert!(!lz4_with_dictionary(&dictionary, stored, less, &mut found));
                assert!(found.is_empty());
            }
        }
    }
}

/// Goal: what the dictionary has is not stored again; without anything in common it costs nothing but the effort.
#[test]
fn a_dictionary_pays_for_what_resembles_it() {
    let mut random = Random::new(3);
    let dictionary = some_bytes(0, 4096, &mut random);
    let mut prepared = Lz4Dictionary::new(dictionary.clone());
    let mut stored = Vec::new();
    assert!(prepared.compress(&dictionary[100..3000], &mut stored));
    assert!(stored.len() < 60, "{}", stored.len());
    stored.clear();
    let unlike = some_bytes(0, 4096, &mut random);
    assert!(prepared.compress(&unlike, &mut stored));
    assert!(stored.len() < 4096 + 40, "{}", stored.len());
}

/// Goal: one block says nothing of those before it: each comes out alone, and is the same whenever it is made, also in another
/// thread.
#[test]
fn blocks_do_not_depend_on_each_other() {
    let mut random = Random::new(9);
    let words = some_bytes(1, 4096, &mut random);
    let blocks: Vec<_> = (0..200)
        .map(|case| {
            let bytes = [5, 100, 4000, 5000, 65_536][case % 5];
            some_bytes(1, bytes, &mut random)
        })
        .collect();
    let all = |mut dictionary: Lz4Dictionary| {
        let stored = blocks.iter().map(|raw| {
            let mut stored = Vec::new();
            assert!(dictionary.compress(raw, &mut stored));
            stored
        });
        stored.collect::<Vec<_>>()
    };
    let stored = all(Lz4Dictionary::new(words.clone()));
    for (raw, stored) in blocks.iter().zip(&stored).rev() {
        let mut alone = Vec::new();
        assert!(Lz4Dictionary::new(words.clone()).compress(raw, &mut alone));
        assert_eq!(alone, *stored);
        assert_eq!(decode_naively(&words, stored), *raw);
    }
    let moved = Lz4Dictionary::new(words);
    let again = std::thread::scope(|scope| scope.spawn(|| all(moved)).join());
    assert_eq!(again.expect("no panic"), stored);
}

#[test]
fn what_cannot_be_is_refused() {
    let long = vec![0; BYTES_MAX + 1];
    let mut stored = b"before".to_vec();
    assert!(!Lz4Dictionary::new(long.clone()).compress(b"x", &mut stored));
    let mut words = Lz4Dictionary::new(b"dictionary".to_vec());
    assert!(!words.compress(&long, &mut stored));
    assert_eq!(stored, b"before");
    assert!(words.memory_bytes() > 2 * STREAM_BYTES && words.bytes() == b"dictionary");
    let mut longest = Lz4Dictionary::new(long[1..].to_vec());
    assert!(longest.compress(&long[1..], &mut stored));
    let mut found = Vec::new();
    for (dictionary, stored, raw_bytes) in [
        (&b"dict"[..], &b""[..], 1),
        (b"dict", b"\x10a", 2),
        (b"dict", b"\x40abcd", usize::MAX),
        (b"dict", b"\xf0", 100),
        (b"dict", b"\x04\x05\x00\x50abcde", 13),
        (&long, b"\x40abcd", 4),
    ] {
        assert!(!lz4_with_dictionary(
            dictionary, stored, raw_bytes, &mut found
        ));
        assert!(found.is_empty());
    }
    assert!(lz4_with_dictionary(
        b"dict",
        b"\x04\x04\x00\x50abcde",
        13,
        &mut found
    ));
    assert_eq!(found, b"dictdictabcde");
}

/// Goal: changed blocks give an error or other bytes of the right length, and never a panic.
#[test]
fn changed_blocks_never_panic() {
    let mut random = Random::new(5);
    let dictionary = some_bytes(1, 300, &mut random);
    let raw = some_bytes(1, 900, &mut random);
    let mut stored = Vec::new();
    assert!(Lz4Dictionary::new(dictionary.clone()).compress(&raw, &mut stored));
    let mut found = Vec::new();
    for bit in 0..stored.len() * 8 {
        let mut changed = stored.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        for length in [raw.len(), raw.len() + 1, 64 << 10] {
            let is_whole = lz4_with_dictionary(&dictionary, &changed, length, &mut found);
            assert_eq!(found.len(), if is_whole { length } else { 0 });
        }
    }
    for length in 0..stored.len() {
        let cut = &stored[..length];
        assert!(!lz4_with_dictionary(
            &dictionary,
            cut,
            raw.len(),
            &mut found
        ));
    }
}
