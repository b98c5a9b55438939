use super::*;

/// A generator that the seed determines (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A column of values: of noise, of text with common words, of runs, or of copies of each other.
fn column(case: usize, random: &mut Random) -> Vec<u8> {
    let mut column = Vec::new();
    while column.len() < case * 40 {
        match case % 4 {
            0 => column.push(random.below(256) as u8),
            1 => {
                let words: [&[u8]; 5] = [b"tide ", b"king", b"the sea ", b", ", b"level "];
                column.extend_from_slice(words[random.below(words.len())]);
            }
            2 => {
                let (byte, count) = (random.below(256) as u8, random.below(90));
                column.extend(std::iter::repeat_n(byte, count));
            }
            _ => {
                let begin = random.below(256);
                column.extend((begin..begin + 100).map(|byte| byte as u8));
            }
        }
    }
    column
}

/// Goal: what is answered is what a whole decompression has. Method: every beginning with several lengths, over columns of
/// different kinds, in both forms that are written; and most of it is answered, so that the test tests something.
#[test]
fn every_part_is_a_part_of_the_whole() {
    let mut random = Random(7);
    let (mut answered, mut asked) = (0, 0);
    for case in 0..60 {
        let raw = column(case, &mut random);
        let fast = lz4::block::CompressionMode::FAST(8);
        for mode in [None, Some(fast)] {
            let stored = lz4::block::compress(&raw, mode, false).expect("LZ4 compresses anything");
            for start in 0..=raw.len() {
                let end = (start + random.below(200)).min(raw.len());
                let mut target = b"before".to_vec();
                asked += 1;
                if lz4_range((&stored, &[]), start..end, &mut target) {
                    answered += 1;
                    assert_eq!(target[6..], raw[start..end], "{case} {start}..{end}");
                }
                assert_eq!(target[..6], *b"before");
            }
        }
    }
    assert!(answered * 3 > asked, "{answered} of {asked}");
}

/// Goal: nothing behind the end is answered, and an empty part is.
#[test]
fn parts_end_with_the_whole() {
    let raw = vec![7; 300];
    let stored = lz4::block::compress(&raw, None, false).expect("LZ4 compresses anything");
    let mut target = Vec::new();
    assert!(lz4_range((&stored, &[]), 0..300, &mut target));
    assert_eq!(target, raw);
    assert!(lz4_range((&stored, &[]), 300..300, &mut target));
    for end in [301, 302, 400, 1000] {
        assert!(!lz4_range((&stored, &[]), 290..end, &mut target), "{end}");
        assert_eq!(target.len(), 300);
    }
    assert!(!lz4_range((&[], &[]), 0..1, &mut target));
}

/// Goal: no bytes make it panic or answer another length than asked for. Method: flips, cuts and noise.
#[test]
fn damaged_blocks_are_survived() {
    let mut random = Random(11);
    for case in 0..24 {
        let raw = column(case, &mut random);
        let stored = lz4::block::compress(&raw, None, false).expect("LZ4 compresses anything");
        for _ in 0..300 {
            let mut damaged = stored.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = random.below(256) as u8;
            }
            damaged.truncate(random.below(damaged.len()) + 1);
            let start = random.below(raw.len() + 1);
            let end = start + random.below(300);
            let mut target = Vec::new();
            let is_whole = lz4_range((&damaged, &[]), start..end, &mut target);
            assert_eq!(target.len(), if is_whole { end - start } else { 0 });
        }
    }
}

/// Goal: with a dictionary, too, what is answered is what a whole decompression has, also where a match begins in the dictionary
/// and ends in the block. Method: columns of different kinds, the begin of which is the end of their dictionary; and one whose
/// dictionary was cut, so that matches reach before it: nothing beyond is answered.
#[test]
fn parts_with_a_dictionary_are_parts_of_the_whole() {
    let mut random = Random(13);
    let (mut answered, mut asked) = (0, 0);
    for case in 4..60 {
        let mut words = column(60 - case, &mut random);
        let mut raw = column(case, &mut random);
        // The match goes on from the dictionary into the block.
        let begin = raw.len().min(70);
        words.extend_from_slice(&raw[..begin]);
        let repeated = raw[..begin].repeat(3);
        raw.splice(..0, repeated);
        let mut stored = Vec::new();
        let mut prepared = kingtide_collections::Lz4Dictionary::new(words.clone());
        assert!(prepared.compress(&raw, &mut stored));
        for start in 0..=raw.len() {
            let end = (start + random.below(200)).min(raw.len());
            let mut target = b"before".to_vec();
            asked += 1;
            if lz4_range((&stored, &words), start..end, &mut target) {
                answered += 1;
                assert_eq!(target[6..], raw[start..end], "{case} {start}..{end}");
            }
            let mut target = Vec::new();
            if lz4_range(
                (&stored, &words[words.len() - 9..]),
                start..end,
                &mut target,
            ) {
                assert_eq!(target, raw[start..end], "{case} {start}..{end}");
            }
        }
    }
    assert!(answered * 3 > asked, "{answered} of {asked}");
}
