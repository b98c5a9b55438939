//! Which segments are in use, wait, or go.

use std::collections::HashSet;

use kingtide_base::{Lsn, SegmentId};
use kingtide_testkit::Random;

use super::*;
use crate::wal::{reader::LogStart, tests::Log};

fn from(segment: SegmentId) -> LogStart {
    LogStart {
        segment,
        position: Lsn(0),
        durable: Lsn(0),
        database: None,
    }
}

/// Appends until the log is in life `segment`.
fn go_on_to(log: &mut Log, segment: u64) {
    while log.tail.segment() < SegmentId(segment) {
        log.append(vec![1; 700_000]);
    }
}

/// Asserts that every file has one use only, and that nothing at or above `needed` waits for another life.
fn check(tail: &Tail, removed: &HashSet<String>, needed: SegmentId) {
    let lives: Vec<_> = tail.retained.iter().chain([&tail.current]).collect();
    let ids: Vec<u64> = lives.iter().map(|segment| segment.id.0).collect();
    let oldest = needed.0.max(ids[0]);
    assert!(ids[0] <= oldest.max(needed.0));
    assert!(
        ids.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "lives follow one another: {ids:?}"
    );
    let mut names = HashSet::new();
    let in_use = lives.iter().map(|segment| &segment.name);
    for name in in_use.chain(tail.blanks.iter().map(|blank| &blank.name)) {
        assert!(names.insert(name.clone()), "{name} has two uses");
        assert!(!removed.contains(name), "{name} was removed and is in use");
    }
    for unsynced in &tail.unsynced {
        assert!(
            lives.iter().any(|life| life.id == unsynced.id),
            "a life that ended is synced"
        );
    }
}

/// Goal: a segment is given another life, or removed, only when everything in it is in tables. Method: random appends,
/// syncs, retirements and shrinkings, the bookkeeping checked after each.
#[test]
fn a_segment_is_never_used_again_while_it_is_needed() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_env, mut log) = Log::in_memory();
        let mut removed = HashSet::new();
        let mut needed = SegmentId(1);
        for _ in 0..60 {
            match random.below(6) {
                0 => log.sync(),
                1 => {
                    let oldest = log.tail.retained.front().unwrap_or(&log.tail.current).id;
                    needed = SegmentId(
                        random.between(oldest.0 as usize, log.tail.segment().0 as usize) as u64,
                    );
                    let kept: Vec<_> = log
                        .tail
                        .retained
                        .iter()
                        .filter(|segment| segment.id >= needed)
                        .map(|segment| segment.name.clone())
                        .collect();
                    let blanks = log.tail.blanks.len();
                    removed.extend(log.retire(from(needed)));
                    let names: Vec<_> = log.tail.retained.iter().map(|s| s.name.clone()).collect();
                    assert_eq!(names, kept, "what is needed stays, the rest goes");
                    assert!(log.tail.blanks.len() <= blanks.max(BLANKS_KEPT_MAX));
                }
                2 if random.one_in(2) => removed.extend(log.tail.shrink()),
                _ => log.append(vec![2; random.below(400_000)]),
            }
            check(&log.tail, &removed, needed);
        }
    }
}

/// Goal: few blanks are kept, the others are removed, and an idle log keeps one. Method: three lives more than are kept end
/// at once.
#[test]
fn few_blanks_are_kept_and_an_idle_log_keeps_one() {
    let (_env, mut log) = Log::in_memory();
    let last = BLANKS_KEPT_MAX as u64 + 4;
    go_on_to(&mut log, last);
    let (count, bytes) = log.tail.size();
    assert_eq!(count as u64, last);
    let removed = log.retire(from(SegmentId(last)));
    let beyond = [last - 3, last - 2, last - 1].map(|slot| format!("{slot:06}.wal"));
    assert_eq!(removed, beyond, "beyond those kept");
    assert_eq!(log.tail.size(), (count - 3, bytes / last * (last - 3)));
    assert!(
        log.retire(from(SegmentId(last))).is_empty(),
        "again does nothing"
    );
    assert_eq!(log.tail.shrink().len(), BLANKS_KEPT_MAX - 1);
    assert!(log.tail.shrink().is_empty());
    assert_eq!(log.tail.size().0, 2);
}

/// Goal: segments that the log has outgrown are not used again. Method: a small one ends while the current one is four
/// times as large.
#[test]
fn a_segment_that_is_too_small_is_removed() {
    let (_env, mut log) = Log::in_memory();
    log.add_blank(4 << 20);
    log.append(vec![3; 700_000]);
    log.append(vec![3; 700_000]);
    assert_eq!(log.retire(from(SegmentId(2))), ["000001.wal"]);
    assert_eq!(log.tail.size(), (1, 4 << 20));

    // Half as large is large enough.
    let (_env, mut log) = Log::in_memory();
    log.add_blank(2 << 20);
    log.append(vec![3; 700_000]);
    log.append(vec![3; 700_000]);
    assert!(log.retire(from(SegmentId(2))).is_empty());
    assert_eq!(log.tail.size(), (2, 3 << 20));
}

/// Goal: a sync covers every segment since the last one, oldest first, and then only the current one.
#[test]
fn a_sync_covers_all_segments_since_the_last_one() {
    let (_env, mut log) = Log::in_memory();
    let ids = |tail: &Tail| -> Vec<u64> { tail.unsynced().iter().map(|s| s.id.0).collect() };
    go_on_to(&mut log, 3);
    assert_eq!(ids(&log.tail), [1, 2, 3]);
    log.sync();
    assert_eq!(ids(&log.tail), [3]);
    go_on_to(&mut log, 5);
    assert_eq!(ids(&log.tail), [3, 4, 5]);
    log.retire(from(SegmentId(4)));
    assert_eq!(
        ids(&log.tail),
        [4, 5],
        "nobody asks for a retired one any more"
    );
}

/// Goal: a record is taken in only when it fits, and then it does fit, to the last byte. Method: random lengths and
/// blanks; `has_room` is believed.
#[test]
fn what_has_room_fits() {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_env, mut log) = Log::in_memory();
        for _ in 0..40 {
            if random.one_in(4) {
                log.add_blank((1 + random.below(3) as u64) << 20);
            }
            log.append(vec![4; random.below(1 << 20)]);
        }
    }
    let (_env, mut log) = Log::in_memory();
    let whole = (1 << 20) - 1024 - FRAME_HEADER_BYTES;
    log.append(vec![5; whole]);
    assert_eq!(log.tail.segment(), SegmentId(1), "it fills the segment");
    let mark = log.tail.append_mark(SeqNo(1), Lsn(0));
    assert!(!mark.expect("nothing was written"), "a mark has no room");
    log.append(vec![5; 1]);
    assert_eq!(log.tail.segment(), SegmentId(2));
}

/// Goal: a read-only log refuses records and never asks for windows or blanks.
#[test]
fn a_read_only_tail_takes_nothing() {
    let mut tail = Tail::read_only(SegmentId(7), Lsn(99));
    let mut frames = RecordFrames::default();
    frames.prepare(&[0; 64], 64..64);
    assert!(!tail.has_room(&frames));
    assert!(tail.claim_window().is_none());
    let window = tail.current.file.prepare_window(0, WINDOW_BYTES);
    assert!(!window.expect("never fails"), "there is nothing to map");
    assert_eq!((tail.segment(), tail.position()), (SegmentId(7), Lsn(99)));
    assert!(
        tail.append(&mut [0; 64], &mut frames, SeqNo(1), Lsn(0))
            .is_err()
    );
}

/// A payload whose frame takes `bytes`.
fn frame_of(bytes: u64) -> Vec<u8> {
    vec![6; bytes as usize - FRAME_HEADER_BYTES]
}

/// Goal: a blank is asked for when the second half of the last segment is begun, twice as large as that, and large enough
/// for the record that waits.
#[test]
fn the_next_segment_is_asked_for_in_time_and_is_larger() {
    let (_env, mut log) = Log::in_memory();
    assert_eq!(log.tail.next_blank_bytes(None), 2 << 20);
    log.append(frame_of((1 << 19) - SEGMENT_FRAMES_OFFSET));
    assert!(!log.tail.wants_blank(), "half of it is left");
    log.append(frame_of(64));
    assert!(log.tail.wants_blank() && log.tail.wants_attention());
    log.add_blank(0);
    assert!(!log.tail.wants_blank());

    let buffer = vec![0; 5 << 20];
    let mut frames = RecordFrames::default();
    frames.prepare(&buffer, 0..buffer.len());
    let needed = frame_bytes(buffer.len()) as u64 + SEGMENT_FRAMES_OFFSET;
    assert_eq!(log.tail.next_blank_bytes(Some(&frames)), needed);
}

/// Goal: what is told of the log's size is so. Method: two segments of known sizes, records and a mark.
#[test]
fn bytes_are_counted() {
    let (_env, mut log) = Log::in_memory();
    log.add_blank(2 << 20);
    log.append(frame_of(640_000));
    log.append(frame_of(640_000));
    assert!(log.tail.append_mark(SeqNo(2), Lsn(0)).expect("has room"));
    let mark = frame_bytes(0) as u64;
    assert_eq!(log.tail.segment(), SegmentId(2));
    assert_eq!(log.tail.bytes_written(), 1_280_000 + mark);
    assert_eq!(log.tail.position(), Lsn(1_280_000 + mark));
    assert_eq!(log.tail.current_bytes(), 2 << 20);
    let used = SEGMENT_FRAMES_OFFSET + 640_000 + mark;
    assert_eq!(log.tail.retained_bytes(), (1 << 20) + used);
    assert_eq!(log.tail.size(), (2, 3 << 20));
}

/// Goal: a full segment's windows are let go once the next one has its own, and only then. Method: windows in three segments
/// one after the other, the second of which is skipped.
#[test]
fn a_full_segment_is_told_once() {
    let (_env, mut log) = Log::in_memory();
    log.append(frame_of(65_536));
    let claim = |log: &mut Log| {
        while log.tail.claim_window().is_some() {}
        log.tail.take_outgrown().map(|segment| segment.id)
    };
    assert_eq!(claim(&mut log), None);
    go_on_to(&mut log, 3);
    assert_eq!(claim(&mut log), Some(SegmentId(1)));
    assert_eq!(claim(&mut log), None, "it was taken");
    go_on_to(&mut log, 4);
    assert_eq!(claim(&mut log), Some(SegmentId(3)));
}

/// Goal: windows lie ahead of the tail, one after the other, as far as they shall, up to the end of the segment. Method: a
/// segment of twelve windows; the tail comes to the places where the next one is due, and just before.
#[test]
fn windows_go_ahead_of_the_tail() {
    let (_env, mut log) = Log::in_memory();
    let segment = 12 * WINDOW_BYTES;
    log.add_blank(segment);
    let blank = log.tail.blanks.pop_front().expect("it was added");
    log.tail.restart(blank).expect("a healthy disk");
    let claim = |log: &mut Log| log.tail.claim_window().map(|(_, start)| start);

    log.append(frame_of(65_472));
    assert_eq!(claim(&mut log), None, "little was written");
    log.append(frame_of(64));
    assert!(log.tail.wants_attention());
    // The tail is at 1024 + 65536, in the page that begins at 65536.
    let ahead = WINDOWS_AHEAD_BYTES / WINDOW_BYTES + 1;
    for window in 0..ahead {
        let start = 65_536 + window * WINDOW_BYTES;
        assert_eq!(claim(&mut log), Some(start));
    }
    assert_eq!(claim(&mut log), None, "they were claimed");
    let due = 65_536 + ahead * WINDOW_BYTES - WINDOWS_AHEAD_BYTES;
    log.append(frame_of(due - log.tail.offset - 64));
    assert_eq!(claim(&mut log), None, "enough is left");
    log.append(frame_of(64));
    assert_eq!(claim(&mut log), Some(65_536 + ahead * WINDOW_BYTES));
    assert_eq!(claim(&mut log), None);

    let skipped = 65_536 + 9 * WINDOW_BYTES;
    log.append(frame_of(skipped - log.tail.offset));
    assert_eq!(claim(&mut log), Some(skipped), "not behind the tail");
    assert_eq!(claim(&mut log), Some(skipped + WINDOW_BYTES));
    assert_eq!(claim(&mut log), Some(skipped + 2 * WINDOW_BYTES));
    assert_eq!(claim(&mut log), None, "the segment ends there");

    log.append(frame_of(segment - log.tail.offset - 64));
    log.append(frame_of(4096));
    let behind = log.tail.offset & !4095;
    assert_eq!(claim(&mut log), Some(behind), "another segment begins");
    log.tail.give_up_windows();
    log.append(frame_of(WINDOW_BYTES));
    assert_eq!(claim(&mut log), None, "windows were given up");
}

/// Goal: nothing is written through the end of a log that is only read. Method: a record, a mark, and every call that could
/// change its file.
#[test]
fn the_end_of_a_log_that_is_only_read_takes_nothing() {
    let mut tail = Tail::read_only(SegmentId(3), Lsn(500));
    let mut buffer = vec![0; 100];
    let mut frames = RecordFrames::default();
    frames.prepare(&buffer, 64..100);
    assert!(!tail.has_room(&frames));
    let outcome = tail.append(&mut buffer, &mut frames, SeqNo(1), Lsn(0));
    assert!(outcome.is_err(), "{outcome:?}");
    assert!(
        !tail
            .append_mark(SeqNo(1), Lsn(0))
            .expect("nothing is written")
    );
    assert_eq!((tail.position(), tail.segment()), (Lsn(500), SegmentId(3)));
    let file = &tail.current.file;
    let refused = [file.write_at(b"x", 0), file.allocate(0, 1), file.set_len(1)];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert_eq!(file.len().expect("empty"), 0);
    assert_eq!(file.read_at(&mut [0; 4], 0).expect("empty"), 0);
    assert!(!file.prepare_window(0, 1).expect("none"));
    assert!(file.sync().is_ok());
}
