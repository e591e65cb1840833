//! The point of a response at which a fault happens.

use serde::{Deserialize, Serialize};

use crate::duration::Duration;

/// A point of a response: the first of the given limits that is reached. Without limits it is
/// before the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Point {
    /// The number of bytes before the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The number of list items before the point, or of watch events including bookmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// The time from the start of the response to the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
}

/// The position in a response relative to a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    point: Point,
    bytes: u64,
    objects: u64,
}

impl Progress {
    /// The start of a response.
    pub const fn new(point: Point) -> Self {
        Self { point, bytes: 0, objects: 0 }
    }

    /// True if the point is reached already.
    pub fn is_reached(&self) -> bool {
        let Point { bytes, objects, time } = self.point;
        let nothing = bytes.is_none() && objects.is_none() && time.is_none();
        nothing
            || bytes.is_some_and(|most| self.bytes >= most)
            || objects.is_some_and(|most| self.objects >= most)
    }

    /// The time after which the point is reached, whatever was sent until then.
    pub const fn time(&self) -> Option<Duration> {
        self.point.time
    }

    /// Counts the next chunk, in which objects end at the offsets `ends`. Returns the number of
    /// bytes before the point; `None` if it is behind the chunk.
    pub fn take(&mut self, length: usize, ends: &[usize]) -> Option<usize> {
        if self.is_reached() {
            return Some(0);
        }
        let by_bytes = self.point.bytes.map(|most| left(most, self.bytes));
        let by_objects = self
            .point
            .objects
            .and_then(|most| ends.get(left(most, self.objects).checked_sub(1)?).copied());
        let at = by_bytes.into_iter().chain(by_objects).min().filter(|at| *at <= length);
        self.bytes += length as u64;
        self.objects += ends.len() as u64;
        at
    }
}

fn left(most: u64, passed: u64) -> usize {
    usize::try_from(most.saturating_sub(passed)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(point: Point, pieces: &[(usize, &[usize])]) -> Vec<Option<usize>> {
        let mut progress = Progress::new(point);
        pieces.iter().map(|(length, ends)| progress.take(*length, ends)).collect()
    }

    /// S17: the point is found in any chunk of the response, by bytes, by objects, or by the first
    /// of the two.
    #[test]
    fn the_point_is_found_across_chunks() {
        let response: [(usize, &[usize]); 3] = [(10, &[4, 10]), (10, &[10]), (10, &[5, 10])];
        let bytes = |bytes| Point { bytes: Some(bytes), ..Point::default() };
        let objects = |objects| Point { objects: Some(objects), ..Point::default() };
        assert_eq!(pieces(Point::default(), &response)[0], Some(0));
        assert_eq!(pieces(bytes(0), &response)[0], Some(0));
        assert_eq!(pieces(bytes(7), &response)[0], Some(7));
        assert_eq!(pieces(bytes(15), &response)[..2], [None, Some(5)]);
        assert_eq!(pieces(bytes(20), &response)[..2], [None, Some(10)]);
        assert_eq!(pieces(bytes(100), &response), [None, None, None]);
        assert_eq!(pieces(objects(1), &response)[0], Some(4));
        assert_eq!(pieces(objects(3), &response)[..2], [None, Some(10)]);
        assert_eq!(pieces(objects(4), &response), [None, None, Some(5)]);
        let both = Point { bytes: Some(12), objects: Some(4), time: None };
        assert_eq!(pieces(both, &response)[..2], [None, Some(2)]);
        let timed = Point { time: Some(Duration(5)), ..Point::default() };
        assert_eq!(pieces(timed, &response), [None, None, None]);
    }
}
