//! A TCP stream that is read in large pieces: TLS reads 4 KiB at a time, and a large list needs a
//! system call for each.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Size of the buffer, of which only as much is used as arrives at once.
const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct Buffered<T> {
    stream: T,
    buffer: Box<[u8]>,
    /// The part of the buffer that was not read yet.
    unread: std::ops::Range<usize>,
}

impl<T> Buffered<T> {
    pub(super) fn new(stream: T) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES].into_boxed_slice(), unread: 0..0 }
    }
}

impl<T: Read + Unpin> Buffered<T> {
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer.unfilled()))?;
        self.unread = 0..buffer.filled().len();
        Poll::Ready(Ok(()))
    }
}

impl<T: Read + Unpin> Read for Buffered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            ready!(self.poll_fill(context))?;
        }
        let length = self.unread.len().min(into.remaining());
        let start = self.unread.start;
        into.put_slice(&self.buffer[start..start + length]);
        self.unread.start += length;
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Buffered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}

impl<T: Connection> Connection for Buffered<T> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Bytes that are written in pieces of these sizes are read unchanged, to the end.
    #[tokio::test]
    async fn bytes_are_read_as_they_were_written() {
        for sizes in [&[1, 7, 4096][..], &[BUFFER_BYTES, 5], &[3 * BUFFER_BYTES]] {
            let (mut writer, reader) = duplex(2 * BUFFER_BYTES);
            let written: Vec<u8> =
                (0..sizes.iter().sum::<usize>()).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let (pieces, sizes) = (written.clone(), sizes.to_vec());
            let writing = tokio::spawn(async move {
                let mut rest = &pieces[..];
                for size in sizes {
                    let (piece, after) = rest.split_at(size);
                    writer.write_all(piece).await.unwrap();
                    rest = after;
                }
            });
            let mut read = Vec::new();
            let mut stream = TokioIo::new(Buffered::new(TokioIo::new(reader)));
            stream.read_to_end(&mut read).await.unwrap();
            writing.await.unwrap();
            assert!(read == written, "{} bytes of {}", read.len(), written.len());
        }
    }
}
