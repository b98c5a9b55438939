use std::{sync::Arc, thread};

use super::{BlockBytes, BlockMemory, MEMORY_BYTES_MIN, Region, bytes_in, piece_bytes};
use crate::{
    budget::{Account, MemoryBudget},
    testing::Random,
};

/// A piece that was lent, and what was written into it.
struct Lent {
    cell: u32,
    base: std::ptr::NonNull<u8>,
    len: usize,
    number: u8,
}

impl Lent {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the region lent so many bytes here, and has not taken them back.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

/// Goal: pieces never overlap, keep what is written into them, and are whole again once all are back. Method: random lending and
/// giving back of lengths around the borders of lists, each piece filled with a number of its own that is looked at when it goes
/// back; after every hundred steps the region is walked, which checks headers, lists and bits.
#[test]
fn a_region_lends_what_is_free_and_joins_what_comes_back() {
    let (steps, bytes) = if cfg!(miri) {
        (300, 16 << 10)
    } else {
        (40_000, 1 << 20)
    };
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut region = Region::new(bytes);
        let mut all: Vec<Lent> = Vec::new();
        let mut refused = 0;
        for step in 0..steps {
            // Fills up, then empties, again and again.
            let wants_more = random.below(10) < if step / 2000 % 2 == 0 { 7 } else { 3 };
            if wants_more || all.is_empty() {
                let len = match random.below(4) {
                    0 => random.below(40),
                    1 => random.below(600),
                    2 => 16 << random.below(8),
                    _ => random.below(9000),
                };
                let lent_before = region.lent_bytes();
                match region.lend(len) {
                    Some((cell, base)) => {
                        let number = step as u8;
                        let mut lent = Lent {
                            cell,
                            base,
                            len,
                            number,
                        };
                        lent.bytes().fill(number);
                        assert_eq!(base.as_ptr() as usize % 16, 0);
                        assert!(region.lent_bytes() - lent_before >= piece_bytes(len));
                        all.push(lent);
                    }
                    None => refused += 1,
                }
            } else {
                let mut lent = all.swap_remove(random.below(all.len()));
                let number = lent.number;
                assert!(
                    lent.bytes().iter().all(|byte| *byte == number),
                    "seed {seed}"
                );
                region.give_back(lent.cell);
            }
            assert!(region.touched_bytes() >= region.lent_bytes());
            if step % 100 == 0 {
                region.pieces();
            }
        }
        assert!(refused > 0, "it was full at times");
        for lent in all {
            region.give_back(lent.cell);
        }
        assert_eq!(region.lent_bytes(), 0);
        assert_eq!(region.pieces(), [(0, bytes, true)], "seed {seed}");
    }
}

/// Goal: a piece is found where one is surely long enough, for every length. Method: lengths from one byte on, from a region of
/// just that piece and from a whole one.
#[test]
fn every_length_is_lent_exactly() {
    let lens = (0..200).chain([1000, 1023, 1024, 4000, 65_535, 65_536, 200_000]);
    for len in lens {
        let mut region = Region::new(1 << 20);
        let (cell, _) = region.lend(len).expect("an empty region has room");
        assert_eq!((cell, region.lent_bytes()), (0, piece_bytes(len)));
        region.give_back(cell);
        region.pieces();
        assert!(region.lend(1 << 20).is_none(), "there is a header too");
        assert!(region.lend((1 << 20) - 16).is_some());
    }
}

/// Goal: whoever is lent a piece is told in time which pages to bring in: all that is lent lies in what was told before, but for the
/// very first piece; and everything is told once. What was told counts. Method: a region that is filled in order; a small one and one
/// without huge pages tell nothing.
#[test]
fn pages_are_brought_in_ahead() {
    let region_bytes = 8 << 20;
    let mut region = Region::new(region_bytes);
    let mut told_bytes = 0;
    while let Some((cell, _)) = region.lend(5000) {
        let end = cell as usize * 16 + piece_bytes(5000);
        assert!(told_bytes == 0 || end <= told_bytes);
        if let Some((_, bytes)) = region.take_ahead() {
            assert_eq!(bytes.start, told_bytes);
            told_bytes = bytes.end;
        }
        assert!(region.touched_bytes() >= told_bytes.max(end));
    }
    // Nothing, where the system knows no huge pages.
    assert!([0, region_bytes].contains(&told_bytes));
    let mut small = Region::new(1 << 20);
    assert!(small.lend(5000).is_some() && small.take_ahead().is_none());
}

fn memory(bytes: usize) -> (Arc<BlockMemory>, Arc<MemoryBudget>) {
    let budget = MemoryBudget::new(1 << 30);
    let memory = BlockMemory::new(bytes, &budget).expect("it is enough");
    (memory, budget)
}

/// Goal: memory for so many bytes holds so many, in pieces as blocks have them, and hardly more; what is beyond comes from the
/// allocator; what it takes up counts; and it goes when it is no longer used.
#[test]
#[cfg(not(miri))]
fn memory_holds_what_it_was_made_for() {
    let (memory, budget) = memory(MEMORY_BYTES_MIN);
    let mut random = Random::new(7);
    let mut held: Vec<BlockBytes> = Vec::new();
    let mut bytes = 0;
    while bytes < MEMORY_BYTES_MIN {
        let piece = memory.lend(1000 + random.below(6000)).expect("it has room");
        bytes += piece.memory_bytes();
        held.push(piece);
    }
    let counted = budget.of(Account::Cache);
    assert!(
        counted + bytes <= MEMORY_BYTES_MIN + (5 << 20),
        "{counted} beside {bytes}"
    );
    while let Some(piece) = memory.lend(4000) {
        bytes += piece.memory_bytes();
        held.push(piece);
    }
    assert!(bytes < MEMORY_BYTES_MIN + (9 << 20), "{bytes}");
    let other = bytes_in(Some(&memory), 4000);
    assert!(!other.is_lent() && other.iter().all(|byte| *byte == 0));
    assert!(
        memory.lend(MEMORY_BYTES_MIN).is_none(),
        "no region is so large"
    );
    drop(held);
    let regions = memory.state.lock().regions.iter().flatten().count();
    assert_eq!(regions, 1, "one is kept");
    assert!(budget.of(Account::Cache) <= 4 << 20);
    drop(other);
    drop(memory);
    assert_eq!(budget.used(), 0);
}

/// Goal: pieces that come and go for long do not wear the memory out: nearly all of what it was made for can be lent at any
/// time. Method: full memory in which a random piece is exchanged for one of another length, many times over, as a cache does.
#[test]
#[cfg(not(miri))]
fn exchanges_do_not_wear_memory_out() {
    let (memory, _budget) = memory(MEMORY_BYTES_MIN);
    let mut random = Random::new(11);
    let mut held: Vec<BlockBytes> = Vec::new();
    let mut bytes = 0;
    let mut outside = 0;
    for step in 0..200_000 {
        // Blocks get shorter, then longer again: another table, other values.
        let typical = 1500 + 3000 * (step / 50_000 % 2);
        let piece = bytes_in(Some(&memory), typical + random.below(1000));
        bytes += piece.memory_bytes();
        outside += usize::from(!piece.is_lent() && step > 20_000);
        held.push(piece);
        while bytes > MEMORY_BYTES_MIN {
            let piece = held.swap_remove(random.below(held.len()));
            bytes -= piece.memory_bytes();
        }
    }
    assert!(
        outside < 20_000,
        "{outside} of 200,000 came from the allocator"
    );
    for region in memory.state.lock().regions.iter().flatten() {
        region.pieces();
    }
}

/// Goal: bytes are what was put into them, in either kind of memory; vectors become bytes and come back with their memory.
#[test]
fn bytes_keep_what_they_are() {
    let mut vector = Vec::with_capacity(100);
    vector.extend_from_slice(b"ebb and flood");
    let base = vector.as_ptr();
    let mut bytes = BlockBytes::from(vector);
    assert_eq!(
        (&bytes[..], bytes.memory_bytes()),
        (&b"ebb and flood"[..], 100)
    );
    bytes.as_mut_slice()[0] = b'E';
    let vector = bytes.into_vec();
    assert_eq!((vector.as_ptr(), vector.capacity()), (base, 100));
    assert_eq!(vector, b"Ebb and flood");
    assert!(BlockBytes::from(Vec::new()).is_empty());
    assert!(bytes_in(None, 3).iter().eq(&[0; 3]));
    assert!(BlockMemory::new(MEMORY_BYTES_MIN - 1, &MemoryBudget::unlimited()).is_none());
    let (memory, _budget) = memory(MEMORY_BYTES_MIN);
    let mut piece = memory.lend(5).expect("it has room");
    assert!(piece.is_lent());
    piece.as_mut_slice().copy_from_slice(b"tides");
    assert_eq!(&piece[..], b"tides");
    assert_eq!(piece.into_vec().capacity(), 0);
    assert_eq!(
        memory.state.lock().regions[0]
            .as_ref()
            .map(Region::lent_bytes),
        Some(0)
    );
}

/// Goal: threads that lend and give back, their own pieces and those of others, neither mix nor lose one. Method: four threads
/// that pass pieces on, each filled with the number of who filled it.
#[test]
fn threads_share_memory() {
    let (memory, _budget) = memory(MEMORY_BYTES_MIN);
    let steps = if cfg!(miri) { 20 } else { 5000 };
    let (sender, receiver) = std::sync::mpsc::sync_channel::<(u8, BlockBytes)>(64);
    let receiver = std::sync::Mutex::new(receiver);
    thread::scope(|scope| {
        for seed in 0..4_u8 {
            let (memory, sender, receiver) = (&memory, sender.clone(), &receiver);
            scope.spawn(move || {
                let mut random = Random::new(seed.into());
                for _ in 0..steps {
                    let mut piece = bytes_in(Some(memory), random.below(6000));
                    piece.as_mut_slice().fill(seed);
                    if let Err(std::sync::mpsc::TrySendError::Full(back)) =
                        sender.try_send((seed, piece))
                    {
                        drop(back);
                    }
                    let taken = receiver.lock().expect("no panic").try_recv();
                    if let Ok((number, piece)) = taken {
                        assert!(piece.iter().all(|byte| *byte == number));
                    }
                }
            });
        }
    });
    drop((sender, receiver));
    let state = memory.state.lock();
    let lent: usize = state.regions.iter().flatten().map(Region::lent_bytes).sum();
    assert_eq!(lent, 0);
}
