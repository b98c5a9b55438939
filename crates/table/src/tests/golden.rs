//! Damaged, misplaced and newer files.
