//! What is written into a simulated tree.

use super::Entry;

/// Numbers from a seed: splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// A number from 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Which keys are written. Patterns over a set of keys write each of them about equally often, unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Any key, each as likely.
    Random,
    /// Ascending keys.
    Sequential,
    /// Few keys often: key k is written in proportion to 1 / k.
    Zipfian,
    /// Any key; two in five writes are deletions.
    Deletes,
    /// Ascending keys that are deleted in the same order, a while later.
    Queue,
    /// Eight writers, each with ascending keys of its own range.
    Ranges,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Random,
        Self::Sequential,
        Self::Zipfian,
        Self::Deletes,
        Self::Queue,
        Self::Ranges,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
            Self::Zipfian => "zipfian",
            Self::Deletes => "deletes",
            Self::Queue => "queue",
            Self::Ranges => "ranges",
        }
    }

    /// The load of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|load| load.name() == name)
    }

    /// Write number `sequence`, counted from 1, to one of `keys` keys.
    pub fn write(self, random: &mut Random, sequence: u64, keys: u32) -> Entry {
        let count = u64::from(keys.max(8));
        let any = random.below(count);
        let (key, is_tombstone) = match self {
            Self::Random => (any, false),
            Self::Sequential => (sequence, false),
            Self::Zipfian => {
                // The inverse of the distribution function of 1 / k, ln k / ln n; ranks are spread over the keys.
                let rank = (count as f64).powf(random.unit()) as u64 - 1;
                (rank.wrapping_mul(2_654_435_761) % count, false)
            }
            Self::Deletes => (any, random.below(5) < 2),
            Self::Queue if sequence.is_multiple_of(2) => {
                let first = (sequence / 2).saturating_sub(count / 2);
                (first, true)
            }
            Self::Queue => (sequence / 2, false),
            Self::Ranges => {
                let writer = sequence % 8;
                (writer * (u64::from(u32::MAX) / 8) + sequence / 8, false)
            }
        };
        Entry {
            key: u32::try_from(key).unwrap_or(u32::MAX),
            sequence,
            is_tombstone,
        }
    }
}
