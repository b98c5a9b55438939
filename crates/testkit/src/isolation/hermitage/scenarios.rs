//! The scenarios: those of the Hermitage tests (M. Kleppmann), each for single keys and for ranges, and others from the
//! papers: the anomaly of a read-only transaction (Fekete, O'Neil, O'Neil, 2004), the long fork (Sovran et al., 2011),
//! a cycle of three, blind writes, deletes and inserts.
//!
//! The function behind each scenario says, from what was read and from the final state alone, whether the anomaly
//! happened, and which transaction's level should have prevented it. Where it is a cycle of stale reads, that is the one
//! that committed last: at its commit its reads were stale already.

use super::scenario::{Answer, Column, Outcome, Scenario};

const FIRST: usize = 0;
const SECOND: usize = 1;
const THIRD: usize = 2;
const FOURTH: usize = 3;

/// All scenarios.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "dirty write, points",
        column: Column::G0,
        setup: "x=10 y=20",
        scripts: &[
            "begin; put x 11; put y 21; commit",
            "begin; put x 12; put y 22; commit",
        ],
        anomaly: |it| {
            let is_mixed = it.last(b'x').map(|x| x + 10) != it.last(b'y');
            is_mixed.then(|| it.last_committer(&[FIRST, SECOND]))?
        },
    },
    Scenario {
        name: "dirty write, ranges",
        column: Column::G0,
        setup: "a=1 b=1 c=1",
        scripts: &[
            "begin; delete a; delete b; delete c; commit",
            "begin; put a 2; put b 2; put c 2; commit",
        ],
        anomaly: |it| {
            let is_whole = it.last.iter().filter(|(_, value)| *value == 2).count() == it.last.len();
            let is_mixed = !is_whole || ![0, 3].contains(&it.last.len());
            (is_mixed && it.committed(&[FIRST, SECOND])).then_some(FIRST)
        },
    },
    Scenario {
        name: "dirty write, range delete",
        column: Column::G0,
        setup: "a=1 b=1 c=1",
        scripts: &[
            "begin; clear a..d; commit",
            "begin; put a 2; put b 2; put c 2; commit",
        ],
        anomaly: |it| {
            let is_mixed = ![0, 3].contains(&it.last.len());
            (is_mixed && it.committed(&[FIRST, SECOND])).then_some(FIRST)
        },
    },
    Scenario {
        name: "aborted read, points",
        column: Column::G1a,
        setup: "x=10",
        scripts: &[
            "begin; put x 101; put y 101; rollback",
            "begin; get x; get y; get x; commit",
        ],
        anomaly: |it| saw_number(it, SECOND, 101),
    },
    Scenario {
        name: "aborted read, ranges",
        column: Column::G1a,
        setup: "b=2",
        scripts: &[
            "begin; put a 101; delete b; rollback",
            "begin; scan a..d; back a..d; commit",
        ],
        anomaly: |it| {
            let is_right =
                |read| it.answer(SECOND, read) == Some(&Answer::Entries(vec![(b'b', 2)]));
            (!is_right(0) || !is_right(1)).then_some(SECOND)
        },
    },
    Scenario {
        name: "aborted read, savepoint",
        column: Column::G1a,
        setup: "a=1 b=2",
        scripts: &[
            "begin; put a 3; save; put b 101; clear a..b; undo; commit",
            "begin; scan a..d; get b; commit",
        ],
        anomaly: |it| {
            let is_wrong = it.saw(SECOND, 0, b'a').is_none()
                || it.saw(SECOND, 0, b'b') != Some(2)
                || it.saw(SECOND, 1, b'b') != Some(2);
            is_wrong.then_some(SECOND)
        },
    },
    Scenario {
        name: "intermediate read, points",
        column: Column::G1b,
        setup: "x=10",
        scripts: &[
            "begin; put x 101; put x 11; commit",
            "begin; get x; get x; commit",
        ],
        anomaly: |it| saw_number(it, SECOND, 101),
    },
    Scenario {
        name: "intermediate read, ranges",
        column: Column::G1b,
        setup: "",
        scripts: &[
            "begin; put a 101; put b 101; delete a; put b 1; commit",
            "begin; scan a..d; scan a..d; commit",
        ],
        anomaly: |it| saw_number(it, SECOND, 101),
    },
    Scenario {
        name: "circular information flow, points",
        column: Column::G1c,
        setup: "x=10 y=20",
        scripts: &[
            "begin; put x 11; get y; commit",
            "begin; put y 22; get x; commit",
        ],
        anomaly: |it| {
            let is_circle =
                it.saw(FIRST, 0, b'y') == Some(22) && it.saw(SECOND, 0, b'x') == Some(11);
            is_circle.then_some(FIRST)
        },
    },
    Scenario {
        name: "circular information flow, ranges",
        column: Column::G1c,
        setup: "",
        scripts: &[
            "begin; put a 1; scan m..p; commit",
            "begin; put m 1; scan a..d; commit",
        ],
        anomaly: |it| {
            let is_circle = it.saw(FIRST, 0, b'm').is_some() && it.saw(SECOND, 0, b'a').is_some();
            is_circle.then_some(FIRST)
        },
    },
    Scenario {
        name: "observed transaction vanishes, points",
        column: Column::Otv,
        setup: "x=10 y=20",
        scripts: &[
            "begin; put x 11; put y 21; commit",
            "begin; put x 12; put y 22; commit",
            "begin; get x; get y; commit",
        ],
        anomaly: |it| {
            vanished(
                it,
                it.saw(THIRD, 0, b'x')? - 10,
                it.saw(THIRD, 1, b'y')? - 20,
            )
        },
    },
    Scenario {
        name: "observed transaction vanishes, ranges",
        column: Column::Otv,
        setup: "a=0 m=0",
        scripts: &[
            "begin; put a 1; put m 1; commit",
            "begin; put a 2; put m 2; commit",
            "begin; scan a..c; scan m..o; commit",
        ],
        anomaly: |it| vanished(it, it.saw(THIRD, 0, b'a')?, it.saw(THIRD, 1, b'm')?),
    },
    Scenario {
        name: "two reads, points",
        column: Column::Pmp,
        setup: "x=10",
        scripts: &[
            "begin; get a; get x; get a; get x; commit",
            "begin; put a 1; delete x; commit",
        ],
        anomaly: |it| {
            let differ = it.answer(FIRST, 0) != it.answer(FIRST, 2)
                || it.answer(FIRST, 1) != it.answer(FIRST, 3);
            differ.then_some(FIRST)
        },
    },
    Scenario {
        name: "two reads, ranges",
        column: Column::Pmp,
        setup: "c=30",
        scripts: &[
            "begin; scan a..d; back a..d; commit",
            "begin; put b 3; delete c; commit",
        ],
        anomaly: |it| (it.answer(FIRST, 0) != it.answer(FIRST, 1)).then_some(FIRST),
    },
    Scenario {
        name: "two reads, range delete",
        column: Column::Pmp,
        setup: "b=1 c=30",
        scripts: &[
            "begin; scan a..e; get c; back a..e; commit",
            "begin; clear a..d; put d 1; commit",
        ],
        anomaly: |it| (it.answer(FIRST, 0) != it.answer(FIRST, 2)).then_some(FIRST),
    },
    Scenario {
        name: "lost update, points",
        column: Column::P4,
        setup: "x=10",
        scripts: &[
            "begin; get x; put x x+1; commit",
            "begin; get x; put x x+1; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "lost update, ranges",
        column: Column::P4,
        setup: "x=10 y=20",
        scripts: &[
            "begin; scan x..z; put x x+1; commit",
            "begin; back x..z; put x x+1; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "lost update, three",
        column: Column::P4,
        setup: "",
        scripts: &[
            "begin; get x; put x x+1; commit",
            "begin; get x; put x x+1; commit",
            "begin; get x; put x x+1; commit",
        ],
        anomaly: |it| {
            // In the order of commits each must have read what the one before it wrote.
            let read = |number: usize| it.saw(number, 0, b'x').unwrap_or(0);
            let at = |place| (FIRST..=THIRD).find(|number| it.commits[*number] == Some(place));
            let is_stale = |number: &usize| {
                let before = it.commits[*number].and_then(|place| at(place - 1));
                it.commits[*number].is_some()
                    && read(*number) != before.map_or(0, |it| read(it) + 1)
            };
            (FIRST..=THIRD).find(is_stale)
        },
    },
    Scenario {
        name: "lost update, blind write",
        column: Column::P4,
        setup: "x=10",
        scripts: &["begin; get x; put x x+1; commit", "begin; put x 12; commit"],
        anomaly: |it| {
            let is_lost = it.committed_before(SECOND, FIRST) && it.saw(FIRST, 0, b'x') == Some(10);
            is_lost.then_some(FIRST)
        },
    },
    Scenario {
        name: "lost update, write of its own",
        column: Column::P4,
        setup: "x=10",
        scripts: &["begin; get x; put x x+1; commit", "set x 12"],
        anomaly: |it| {
            let is_lost = it.committed_before(SECOND, FIRST) && it.saw(FIRST, 0, b'x') == Some(10);
            is_lost.then_some(FIRST)
        },
    },
    Scenario {
        name: "lost update, delete",
        column: Column::P4,
        setup: "x=10",
        scripts: &[
            "begin; get x; put x x+1; commit",
            "begin; get x; delete x; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "lost update, range delete",
        column: Column::P4,
        setup: "x=10",
        scripts: &[
            "begin; get x; put x x+1; commit",
            "begin; get x; clear w..z; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "lost update, savepoint",
        column: Column::P4,
        setup: "x=10",
        scripts: &[
            "begin; get x; save; put x 50; undo; put x x+1; commit",
            "begin; get x; put x x+1; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "lost update, two phases",
        column: Column::P4,
        setup: "x=10",
        scripts: &[
            "begin; get x; put x x+1; prepare; finish",
            "begin; get x; put x x+1; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "read skew, single delete",
        column: Column::GSingle,
        setup: "x=10",
        scripts: &[
            "begin; get x; get y; commit",
            "begin; once x; put y 21; commit",
        ],
        anomaly: |it| {
            let is_skewed = it.saw(FIRST, 0, b'x').is_some() == it.saw(FIRST, 1, b'y').is_some();
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "read skew, two phases",
        column: Column::GSingle,
        setup: "x=10 y=20",
        scripts: &[
            "begin; get x; get y; commit",
            "begin; put x 11; put y 21; prepare; finish",
        ],
        anomaly: |it| {
            let is_skewed = it.saw(FIRST, 0, b'x')? + 10 != it.saw(FIRST, 1, b'y')?;
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "lost insert, points",
        column: Column::P4,
        setup: "",
        scripts: &[
            "begin; get a; put a 1; commit",
            "begin; get a; put a 2; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'a').is_none()),
    },
    Scenario {
        name: "lost insert, ranges",
        column: Column::P4,
        setup: "a=1",
        scripts: &[
            "begin; scan a..d; put b 1; commit",
            "begin; scan a..d; put b 2; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'b').is_none()),
    },
    Scenario {
        name: "read skew, points",
        column: Column::GSingle,
        setup: "x=10 y=20",
        scripts: &[
            "begin; get x; get y; commit",
            "begin; put x 11; put y 21; commit",
        ],
        anomaly: |it| {
            let is_skewed = it.saw(FIRST, 0, b'x')? + 10 != it.saw(FIRST, 1, b'y')?;
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "read skew, ranges",
        column: Column::GSingle,
        setup: "n=5",
        scripts: &[
            "begin; scan a..c; scan m..o; commit",
            "begin; put b 1; delete n; commit",
        ],
        anomaly: |it| {
            let is_skewed = it.saw(FIRST, 0, b'b').is_some() == it.saw(FIRST, 1, b'n').is_some();
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "read skew, point and range",
        column: Column::GSingle,
        setup: "x=10",
        scripts: &[
            "begin; get x; back a..d; commit",
            "begin; get x; put x x+1; put b 1; commit",
        ],
        anomaly: |it| {
            let is_skewed =
                (it.saw(FIRST, 0, b'x') == Some(11)) != it.saw(FIRST, 1, b'b').is_some();
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "read skew that is written upon",
        column: Column::GSingle,
        setup: "x=10 y=20",
        scripts: &[
            "begin; get x; delete y; commit",
            "begin; get x; get y; put x 11; put y 21; commit",
        ],
        anomaly: |it| {
            let is_skewed =
                it.committed_before(SECOND, FIRST) && it.saw(FIRST, 0, b'x') == Some(10);
            is_skewed.then_some(FIRST)
        },
    },
    Scenario {
        name: "long fork",
        column: Column::GSingle,
        setup: "x=10 y=20",
        scripts: &[
            "set x 11",
            "set y 21",
            "begin; get x; get y; commit",
            "begin; get x; get y; commit",
        ],
        anomaly: |it| {
            // One saw the first write without the second, the other the second without the first. Wrong is the one
            // that contradicts the order in which they committed.
            let saw = |number| (it.saw(number, 0, b'x'), it.saw(number, 1, b'y'));
            let wrong = if it.committed_before(FIRST, SECOND) {
                (Some(10), Some(21))
            } else {
                (Some(11), Some(20))
            };
            [THIRD, FOURTH]
                .into_iter()
                .find(|number| saw(*number) == wrong)
        },
    },
    Scenario {
        name: "write skew, points",
        column: Column::G2Item,
        setup: "x=10 y=20",
        scripts: &[
            "begin; get x; get y; put x 11; commit",
            "begin; get x; get y; put y 21; commit",
        ],
        anomaly: |it| {
            let is_old =
                |number| it.saw(number, 0, b'x') == Some(10) && it.saw(number, 1, b'y') == Some(20);
            both_lost(it, is_old)
        },
    },
    Scenario {
        name: "write skew, several keys at once",
        column: Column::G2Item,
        setup: "x=10 y=20",
        scripts: &[
            "begin; gets xy; delete x; commit",
            "begin; gets xy; delete y; commit",
        ],
        anomaly: |it| {
            let is_old =
                |number| it.saw(number, 0, b'x') == Some(10) && it.saw(number, 0, b'y') == Some(20);
            both_lost(it, is_old)
        },
    },
    Scenario {
        name: "write skew, ranges",
        column: Column::G2Item,
        setup: "x=10 y=20",
        scripts: &[
            "begin; scan w..z; put x 11; commit",
            "begin; back w..z; delete y; commit",
        ],
        anomaly: |it| {
            let is_old =
                |number| it.saw(number, 0, b'x') == Some(10) && it.saw(number, 0, b'y') == Some(20);
            both_lost(it, is_old)
        },
    },
    Scenario {
        name: "write skew, iterators in single steps",
        column: Column::G2Item,
        setup: "x=10 y=20",
        scripts: &[
            "begin; open a..z; next; next; put x 11; commit",
            "begin; open a..z; next; next; put y 21; commit",
        ],
        anomaly: |it| {
            let is_old =
                |number| it.saw(number, 0, b'x') == Some(10) && it.saw(number, 1, b'y') == Some(20);
            both_lost(it, is_old)
        },
    },
    Scenario {
        name: "write skew, range deletes",
        column: Column::G2Item,
        setup: "b=5 n=6",
        scripts: &[
            "begin; scan a..d; clear m..p; commit",
            "begin; get n; clear a..d; commit",
        ],
        anomaly: |it| {
            let is_old = it.saw(FIRST, 0, b'b') == Some(5) && it.saw(SECOND, 0, b'n') == Some(6);
            both_lost(it, |_| is_old)
        },
    },
    Scenario {
        name: "write skew, two phases",
        column: Column::G2Item,
        setup: "x=10 y=20",
        scripts: &[
            "begin; get x; get y; put x 11; prepare; finish",
            "begin; get x; get y; put y 21; commit",
        ],
        anomaly: |it| {
            let is_old =
                |number| it.saw(number, 0, b'x') == Some(10) && it.saw(number, 1, b'y') == Some(20);
            both_lost(it, is_old)
        },
    },
    Scenario {
        name: "write skew, circle of three",
        column: Column::G2Item,
        setup: "x=0 y=0 z=0",
        scripts: &[
            "begin; get x; put y 1; commit",
            "begin; get y; put z 1; commit",
            "begin; get z; put x 1; commit",
        ],
        anomaly: |it| {
            let is_circle = it.committed(&[FIRST, SECOND, THIRD])
                && it.saw(FIRST, 0, b'x') == Some(0)
                && it.saw(SECOND, 0, b'y') == Some(0)
                && it.saw(THIRD, 0, b'z') == Some(0);
            is_circle.then(|| it.last_committer(&[FIRST, SECOND, THIRD]))?
        },
    },
    Scenario {
        name: "read-only transaction, points",
        column: Column::G2Item,
        setup: "x=0 y=0",
        scripts: &[
            "begin; put y 20; commit",
            "begin; get x; get y; put x -11; commit",
            "begin; get x; get y; commit",
        ],
        anomaly: |it| {
            // The deposit is seen, the withdrawal is not, and yet the fee shows that it came first.
            let is_circle = it.committed(&[FIRST, SECOND])
                && it.saw(SECOND, 1, b'y') == Some(0)
                && it.saw(THIRD, 0, b'x') == Some(0)
                && it.saw(THIRD, 1, b'y') == Some(20);
            is_circle.then(|| late_or_reader(it))
        },
    },
    Scenario {
        name: "read-only transaction, ranges",
        column: Column::G2,
        setup: "",
        scripts: &[
            "begin; put b 20; commit",
            "begin; scan a..d; put x -11; commit",
            "begin; scan w..z; scan a..d; commit",
        ],
        anomaly: |it| {
            let is_circle = it.committed(&[FIRST, SECOND])
                && it.saw(SECOND, 0, b'b').is_none()
                && it.saw(THIRD, 0, b'x').is_none()
                && it.saw(THIRD, 1, b'b').is_some();
            is_circle.then(|| late_or_reader(it))
        },
    },
    Scenario {
        name: "predicate write skew, points",
        column: Column::G2,
        setup: "",
        scripts: &[
            "begin; get a; get b; put a 1; commit",
            "begin; get a; get b; put b 1; commit",
        ],
        anomaly: |it| {
            both_lost(it, |number| {
                it.saw(number, 0, b'a').is_none() && it.saw(number, 1, b'b').is_none()
            })
        },
    },
    Scenario {
        name: "predicate write skew, empty ranges",
        column: Column::G2,
        setup: "",
        scripts: &[
            "begin; scan a..d; put a 1; commit",
            "begin; back a..d; put c 1; commit",
        ],
        anomaly: |it| both_lost(it, |number| is_empty(it, number)),
    },
    Scenario {
        name: "predicate write skew, ranges",
        column: Column::G2,
        setup: "b=5",
        scripts: &[
            "begin; scan a..d; put a 1; commit",
            "begin; scan a..d; put c 1; commit",
        ],
        anomaly: |it| {
            both_lost(it, |number| {
                it.saw(number, 0, b'a').is_none() && it.saw(number, 0, b'c').is_none()
            })
        },
    },
    Scenario {
        name: "predicate write skew, iterators in single steps",
        column: Column::G2,
        setup: "b=5",
        scripts: &[
            "begin; open a..d; next; next; put c 1; commit",
            "begin; open a..d; next; next; put a 1; commit",
        ],
        anomaly: |it| {
            let saw_only = |number| {
                it.answer(number, 0) == Some(&Answer::Entry(Some((b'b', 5))))
                    && it.answer(number, 1) == Some(&Answer::Entry(None))
            };
            both_lost(it, saw_only)
        },
    },
    Scenario {
        name: "predicate write skew, single delete",
        column: Column::G2,
        setup: "b=5",
        scripts: &[
            "begin; scan a..d; put m 1; commit",
            "begin; scan m..p; once b; commit",
        ],
        anomaly: |it| {
            both_lost(it, |number| {
                it.saw(number, 0, b'm').is_none()
                    && (number == SECOND || it.saw(number, 0, b'b').is_some())
            })
        },
    },
    Scenario {
        name: "predicate write skew, two phases",
        column: Column::G2,
        setup: "",
        scripts: &[
            "begin; scan a..d; put a 1; prepare; finish",
            "begin; scan a..d; put b 1; prepare; finish",
        ],
        anomaly: |it| both_lost(it, |number| is_empty(it, number)),
    },
    Scenario {
        name: "predicate write skew, savepoint",
        column: Column::G2,
        setup: "",
        scripts: &[
            "begin; save; put b 9; scan a..d; undo; put m 1; commit",
            "begin; scan m..p; put c 1; commit",
        ],
        anomaly: |it| {
            let is_old = it.saw(FIRST, 0, b'c').is_none() && it.saw(SECOND, 0, b'm').is_none();
            both_lost(it, |_| is_old)
        },
    },
    Scenario {
        name: "iterator across a commit",
        column: Column::OneView,
        setup: "a=1 b=1",
        scripts: &[
            "begin; open a..d; next; next; next; commit",
            "begin; put a 2; put b 2; delete c; commit",
        ],
        anomaly: |it| (it.saw(FIRST, 0, b'a') != it.saw(FIRST, 1, b'b')).then_some(FIRST),
    },
    Scenario {
        name: "several keys at once",
        column: Column::OneView,
        setup: "a=1 b=1",
        scripts: &[
            "begin; gets ab; gets ba; commit",
            "begin; put a 2; put b 2; commit",
        ],
        anomaly: |it| {
            let is_torn = |read| it.saw(FIRST, read, b'a') != it.saw(FIRST, read, b'b');
            (is_torn(0) || is_torn(1)).then_some(FIRST)
        },
    },
    Scenario {
        name: "lost update, read for update",
        column: Column::ForUpdate,
        setup: "x=10",
        scripts: &[
            "begin; lock x; put x x+1; commit",
            "begin; lock x; put x x+1; commit",
        ],
        anomaly: |it| both_lost(it, |number| it.saw(number, 0, b'x') == Some(10)),
    },
    Scenario {
        name: "write skew, read for update",
        column: Column::ForUpdate,
        setup: "x=10",
        scripts: &[
            "begin; lock x; lock y; put x 11; commit",
            "begin; lock x; lock y; put y 21; commit",
        ],
        anomaly: |it| {
            both_lost(it, |number| {
                it.saw(number, 0, b'x') == Some(10) && it.saw(number, 1, b'y').is_none()
            })
        },
    },
];

/// The transaction, if it read this number anywhere.
fn saw_number(it: &Outcome, transaction: usize, wanted: i64) -> Option<usize> {
    let has = |answer: &Answer| match answer {
        Answer::Value(value) => *value == Some(wanted),
        Answer::Entry(entry) => entry.is_some_and(|entry| entry.1 == wanted),
        Answer::Entries(entries) => entries.iter().any(|entry| entry.1 == wanted),
    };
    it.answers[transaction]
        .iter()
        .any(has)
        .then_some(transaction)
}

/// The third, if it read one key as left by `newer` (0: the setup; 1 or 2: that transaction) and then another key,
/// written by the same transactions, as left by `older`, which committed before.
fn vanished(it: &Outcome, newer: i64, older: i64) -> Option<usize> {
    let place = |writer: i64| match writer {
        1 => it.commits[FIRST],
        2 => it.commits[SECOND],
        _ => None,
    };
    (place(older) < place(newer)).then_some(THIRD)
}

/// Of the first two, the one that committed last, if both committed upon a state in which the other had not.
fn both_lost(it: &Outcome, is_stale: impl Fn(usize) -> bool) -> Option<usize> {
    let has_happened = it.committed(&[FIRST, SECOND]) && is_stale(FIRST) && is_stale(SECOND);
    has_happened.then(|| it.last_committer(&[FIRST, SECOND]))?
}

/// In the anomaly of the read-only transaction: the second, if what it had read was stale at its commit. If it was not,
/// the reader saw two states.
fn late_or_reader(it: &Outcome) -> usize {
    if it.committed_before(FIRST, SECOND) {
        SECOND
    } else {
        THIRD
    }
}

fn is_empty(it: &Outcome, transaction: usize) -> bool {
    it.answer(transaction, 0) == Some(&Answer::Entries(Vec::new()))
}
