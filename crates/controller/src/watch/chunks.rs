//! Divides the body of a watch into lines or frames. What arrived in one piece is not copied.

use bytes::{Bytes, BytesMut};
use everynode_k8s::protobuf;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::error::Error;

/// Maximum length of a line or a frame, which is one object. Etcd stores at most 1.5 MiB of it by
/// default; JSON has up to six bytes for one.
pub(super) const EVENT_BYTES_MAX: usize = 64 << 20;
/// Maximum size of a buffer for bytes that have not arrived: their number may be a lie.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The body of a watch.
pub(super) struct Chunks<S> {
    body: S,
    /// Bytes that have arrived and were not read.
    rest: Bytes,
    /// When the server counts as dead.
    until: Instant,
}

impl<S: Stream<Item = std::io::Result<Bytes>> + Unpin> Chunks<S> {
    pub(super) fn new(body: S, until: Instant) -> Self {
        Self { body, rest: Bytes::new(), until }
    }

    /// The next event in protobuf, without its length.
    ///
    /// # Errors
    /// If the body ends, also within a frame, or a frame is too long.
    pub(super) async fn frame(&mut self) -> Result<Bytes, Error> {
        let mut header = [0; protobuf::FRAME_HEADER_BYTES];
        header.copy_from_slice(&self.take(protobuf::FRAME_HEADER_BYTES).await?);
        let length = u32::from_be_bytes(header);
        match usize::try_from(length) {
            Ok(bytes) if bytes <= EVENT_BYTES_MAX => self.take(bytes).await,
            Ok(_) | Err(_) => Err(Error::FrameTooLong(length)),
        }
    }

    /// The next line, with its end.
    ///
    /// # Errors
    /// If the body ends, also within a line, or a line is too long.
    pub(super) async fn line(&mut self) -> Result<Bytes, Error> {
        let mut begun = BytesMut::new();
        loop {
            let end = memchr::memchr(b'\n', &self.rest).map(|at| at + 1);
            let part = self.rest.split_to(end.unwrap_or(self.rest.len()));
            if begun.len() + part.len() >= EVENT_BYTES_MAX {
                return Err(Error::LineTooLong);
            }
            if end.is_some() && begun.is_empty() {
                return Ok(part);
            }
            begun.extend_from_slice(&part);
            if end.is_some() {
                return Ok(begun.freeze());
            }
            self.rest = self.chunk().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Result<Bytes, Error> {
        if self.rest.is_empty() && length > 0 {
            self.rest = self.chunk().await?;
        }
        if self.rest.len() >= length {
            return Ok(self.rest.split_to(length));
        }
        let mut taken = BytesMut::with_capacity(length.min(BUFFER_BYTES_MAX));
        loop {
            let missing = length - taken.len();
            taken.extend_from_slice(&self.rest.split_to(missing.min(self.rest.len())));
            if taken.len() == length {
                return Ok(taken.freeze());
            }
            self.rest = self.chunk().await?;
        }
    }

    async fn chunk(&mut self) -> Result<Bytes, Error> {
        match timeout_at(self.until, self.body.next()).await? {
            Some(chunk) => Ok(chunk?),
            None => Err(Error::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    /// A body that arrives in pieces of these sizes, again and again.
    fn body(
        bytes: &[u8],
        sizes: &[usize],
    ) -> Chunks<impl Stream<Item = std::io::Result<Bytes>> + Unpin> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(Ok(Bytes::copy_from_slice(piece)));
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        Chunks::new(stream::iter(pieces), Instant::now() + std::time::Duration::from_secs(60))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    proptest! {
        /// C1: lines and frames are the same, wherever the body was divided.
        #[test]
        fn events_do_not_depend_on_the_pieces(
            events in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            sizes in prop::collection::vec(1usize..60, 1..5),
            cut in 1usize..4,
        ) {
            let line = |event: &Vec<u8>| {
                let mut line: Vec<u8> = event.iter().copied().filter(|b| *b != b'\n').collect();
                line.push(b'\n');
                line
            };
            let lines: Vec<Vec<u8>> = events.iter().map(line).collect();
            let framed = |event: &Vec<u8>| {
                let length = u32::try_from(event.len()).expect("it is short");
                [&length.to_be_bytes(), &event[..]].concat()
            };
            let frames: Vec<Vec<u8>> = events.iter().map(framed).collect();
            block_on(async {
                let joined = lines.concat();
                let mut all = body(&joined, &sizes);
                for line in &lines {
                    prop_assert_eq!(&all.line().await.expect("a line")[..], &line[..]);
                }
                prop_assert_eq!(matches!(all.line().await, Err(Error::Closed)), true);
                let joined = frames.concat();
                let mut all = body(&joined, &sizes);
                for event in &events {
                    prop_assert_eq!(&all.frame().await.expect("a frame")[..], &event[..]);
                }
                prop_assert_eq!(matches!(all.frame().await, Err(Error::Closed)), true);
                // What is cut off is no event.
                if let Some(last) = frames.last() {
                    let end = last.len().saturating_sub(cut);
                    let mut cut_off = body(&last[..end], &sizes);
                    prop_assert_eq!(matches!(cut_off.frame().await, Err(Error::Closed)), true);
                }
                Ok(())
            })?;
        }
    }

    /// C82: a length that no object has is an error before anything is read.
    #[test]
    fn too_long_frames_are_errors() {
        let length = u32::try_from(EVENT_BYTES_MAX + 1).expect("it fits");
        let error = block_on(body(&length.to_be_bytes(), &[4]).frame());
        assert!(matches!(error, Err(Error::FrameTooLong(found)) if found == length));
    }
}
