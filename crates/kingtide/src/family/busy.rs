//! What running merges and installations of a family hold: tables that are read, and places where tables may come to lie.

use kingtide_base::{FileId, KeyOrder};
use kingtide_policy::Reservation;

/// Names a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId(u64);

#[derive(Debug)]
struct Hold {
    id: HoldId,
    tables: Vec<FileId>,
    reservation: Reservation,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    holds: Vec<Hold>,
    next: u64,
}

impl Busy {
    /// Holds `tables` and the places of `reservation` until [`Busy::release`].
    pub(crate) fn hold(&mut self, tables: Vec<FileId>, reservation: Reservation) -> HoldId {
        let id = HoldId(self.next);
        self.next += 1;
        self.holds.push(Hold {
            id,
            tables,
            reservation,
        });
        id
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, id: HoldId) {
        self.holds.retain(|hold| hold.id != id);
    }

    /// True while a merge reads the table.
    pub(crate) fn is_busy(&self, file: FileId) -> bool {
        self.holds.iter().any(|hold| hold.tables.contains(&file))
    }

    /// The places that are taken.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.holds.iter().map(|hold| &hold.reservation)
    }

    /// True when some hold keeps new tables in the range of `keys`, both included, away from `level`.
    pub(crate) fn shuts(&self, level: u8, keys: (&[u8], &[u8]), order: &KeyOrder) -> bool {
        self.reservations()
            .any(|reservation| reservation.shuts(level.into(), keys, order))
    }
}
