//! What a repair tells.

/// How much of the manifest there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestFound {
    /// All of it.
    #[default]
    Whole,
    /// Some of its frames are whole; tables told the rest.
    Partly,
    /// Nothing. Families, names and orders of keys come from the tables; settings are the default ones, and families
    /// that only the log knows have made-up names and the order of bytes.
    Lost,
}

/// What a repair found, wrote and had to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// How much of the manifest there was.
    pub manifest: ManifestFound,
    /// The families of the new database.
    pub families: Vec<RepairedFamily>,
    /// What is lost.
    pub losses: Vec<RepairLoss>,
    /// Table files that were read.
    pub tables: usize,
    /// Records of the log that were read.
    pub log_records: u64,
    /// Whole records of the log that lie behind a hole in it; used only if the options say so.
    pub log_records_behind_holes: u64,
    /// True when there is no segment of the log: so it is after a close. After a crash, commits that were not in tables
    /// are lost.
    pub has_no_log: bool,
    /// The names of prepared transactions, which are prepared in the new database too.
    pub prepared: Vec<Vec<u8>>,
    /// Files of tables and values that the manifest does not name: leftovers, which were not read.
    pub leftovers: Vec<String>,
}

impl RepairReport {
    /// True when nothing was damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.manifest == ManifestFound::Whole && self.losses.is_empty()
    }
}

/// A family of the new database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairedFamily {
    /// Its name there.
    pub name: String,
    /// True when the name was made up, because the old one is lost.
    pub is_name_lost: bool,
    /// True when its settings are the default ones, because the old ones are lost; the order of keys is the old one.
    pub are_settings_lost: bool,
    /// Its keys.
    pub entries: u64,
    /// Keys that are known to be lost, because the value of their newest version is.
    pub lost_keys: u64,
}

/// Something that is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairLoss {
    /// The file, relative to the database.
    pub file: String,
    /// Where in the file the lost bytes begin.
    pub offset: u64,
    /// How many bytes are lost; 0 when that is not known.
    pub bytes: u64,
    /// What was there.
    pub what: String,
    /// The families that it belongs to; empty when that is not known, or when it belongs to all.
    pub families: Vec<String>,
    /// False when no key is affected.
    pub has_keys: bool,
    /// Between which keys the affected ones lie, these included; `None` for the ends of the order.
    pub keys: (Option<Vec<u8>>, Option<Vec<u8>>),
}
