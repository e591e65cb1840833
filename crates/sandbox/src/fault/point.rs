//! The point of an answer at which something happens to it.

use serde::{Deserialize, Serialize};

use super::Duration;

/// Where in an answer; whichever comes first of what is given. Nothing given: before its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Point {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Items of a list, or events of a watch, bookmarks included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Time since the answer began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    point: Point,
    bytes: u64,
    objects: u64,
}

/// What is to be done with a piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The point is not in it: all of it goes.
    Pass,
    /// The point is after this number of its bytes.
    Reached(usize),
}

impl Progress {
    pub const fn new(point: Point) -> Progress {
        Progress { point, bytes: 0, objects: 0 }
    }

    /// Whether the point lies before anything else comes.
    pub fn is_reached(&self) -> bool {
        let Point { bytes, objects, time } = self.point;
        let nothing = bytes.is_none() && objects.is_none() && time.is_none();
        nothing
            || bytes.is_some_and(|most| self.bytes >= most)
            || objects.is_some_and(|most| self.objects >= most)
    }

    /// The time at which the point is reached whatever has come.
    pub const fn time(&self) -> Option<Duration> {
        self.point.time
    }

    /// Takes the next piece, of which the objects end at these offsets.
    pub fn take(&mut self, length: usize, ends: &[usize]) -> Event {
        if self.is_reached() {
            return Event::Reached(0);
        }
        let by_bytes = self.point.bytes.map(|most| left(most, self.bytes));
        let by_objects = self
            .point
            .objects
            .and_then(|most| ends.get(left(most, self.objects).checked_sub(1)?).copied());
        let at = by_bytes.into_iter().chain(by_objects).min().filter(|at| *at <= length);
        self.bytes += length as u64;
        self.objects += ends.len() as u64;
        at.map_or(Event::Pass, Event::Reached)
    }
}

fn left(most: u64, passed: u64) -> usize {
    usize::try_from(most.saturating_sub(passed)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(point: Point, pieces: &[(usize, &[usize])]) -> Vec<Event> {
        let mut progress = Progress::new(point);
        pieces.iter().map(|(length, ends)| progress.take(*length, ends)).collect()
    }

    /// S17: the point is found in whichever piece of the answer it lies, by bytes, by objects, or whichever is first.
    #[test]
    fn the_point_is_found_across_pieces() {
        let answer: [(usize, &[usize]); 3] = [(10, &[4, 10]), (10, &[10]), (10, &[5, 10])];
        let bytes = |bytes| Point { bytes: Some(bytes), ..Point::default() };
        let objects = |objects| Point { objects: Some(objects), ..Point::default() };
        use Event::{Pass, Reached};
        assert_eq!(pieces(Point::default(), &answer)[0], Reached(0));
        assert_eq!(pieces(bytes(0), &answer)[0], Reached(0));
        assert_eq!(pieces(bytes(7), &answer)[0], Reached(7));
        assert_eq!(pieces(bytes(15), &answer)[..2], [Pass, Reached(5)]);
        assert_eq!(pieces(bytes(20), &answer)[..2], [Pass, Reached(10)]);
        assert_eq!(pieces(bytes(100), &answer), [Pass, Pass, Pass]);
        assert_eq!(pieces(objects(1), &answer)[0], Reached(4));
        assert_eq!(pieces(objects(3), &answer)[..2], [Pass, Reached(10)]);
        assert_eq!(pieces(objects(4), &answer), [Pass, Pass, Reached(5)]);
        let both = Point { bytes: Some(12), objects: Some(4), time: None };
        assert_eq!(pieces(both, &answer)[..2], [Pass, Reached(2)]);
        let timed = Point { time: Some(Duration(5)), ..Point::default() };
        assert_eq!(pieces(timed, &answer), [Pass, Pass, Pass]);
    }
}
