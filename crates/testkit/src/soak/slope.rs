//! The least-squares slope of a line through points, with its standard error.

use std::fmt;

/// A slope and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// In units of y per unit of x.
    pub slope: f64,
    /// From the distances of the points to the line.
    pub standard_error: f64,
}

/// Standard errors that count as noise.
const ERRORS_OF_NOISE: f64 = 3.0;

impl Slope {
    /// Through points of (x, y); `None` for fewer than five, or when all x are equal.
    #[must_use]
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if points.len() < 5 {
            return None;
        }
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let square_x: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if square_x <= 0.0 {
            return None;
        }
        let product: f64 = points
            .iter()
            .map(|(x, y)| (x - mean_x) * (y - mean_y))
            .sum();
        let slope = product / square_x;
        let distance = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
        let residual: f64 = points.iter().map(distance).sum();
        Some(Self {
            slope,
            standard_error: (residual / (count - 2.0) / square_x).sqrt(),
        })
    }

    /// True unless the slope is above `limit` by more than noise.
    #[must_use]
    pub fn is_at_most(&self, limit: f64) -> bool {
        self.slope - ERRORS_OF_NOISE * self.standard_error <= limit
    }

    /// What the slope is below, as far as the points can tell.
    #[must_use]
    pub fn upper_bound(&self) -> f64 {
        self.slope + ERRORS_OF_NOISE * self.standard_error
    }
}

impl fmt::Display for Slope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} (standard error {:.0})",
            self.slope, self.standard_error
        )
    }
}
