//! Room for reviews: how much of what is sent is in memory at a time, whoever sends it.
//!
//! Small reviews, which almost all are, have places of their own, so that they never wait for large ones.

use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A review carries an object twice, and the API server takes objects of three megabytes.
pub(crate) const LARGEST: usize = 8 << 20;
/// What an object may take once it was read. The densest that etcd stores, twice, takes a little less.
const HEAVIEST: usize = 128 << 20;
/// A review of no more bytes is small.
const SMALL: usize = 64 << 10;
/// Small reviews that are in memory at a time.
const SMALL_ONES: usize = 128;
/// Kilobytes of larger reviews that are in memory at a time: two of the largest.
const KILOBYTES: usize = 2 * (LARGEST >> 10);
/// So long room is waited for. Well before the API server gives up, since an answer can say why.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a field, an item, and the first of either take in memory, at the most: maps and lists come in pieces of several.
const OF_ITEM: usize = 110;
const OF_MAP: usize = 650;
const OF_LIST: usize = 150;

/// Room for the bytes of reviews.
pub(crate) struct Room {
    small: Semaphore,
    large: Semaphore,
    taken: IntGauge,
}

/// Room that is taken until this is dropped.
pub(crate) struct Place<'a> {
    _permit: SemaphorePermit<'a>,
    taken: &'a IntGauge,
    bytes: i64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.taken.sub(self.bytes);
    }
}

impl Room {
    /// All of it free. The gauge tells how many bytes are not.
    pub(crate) fn new(taken: IntGauge) -> Self {
        Self { small: Semaphore::new(SMALL_ONES), large: Semaphore::new(KILOBYTES), taken }
    }

    /// Waits until there is room for so many bytes, at most [`LARGEST`]; `None` if that takes too long.
    pub(crate) async fn place(&self, bytes: usize) -> Option<Place<'_>> {
        let permit = async {
            if bytes <= SMALL {
                return self.small.acquire().await;
            }
            let kilobytes = bytes.div_ceil(1 << 10).min(KILOBYTES);
            self.large.acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX)).await
        };
        let permit = timeout(PATIENCE, permit).await.ok()?.ok()?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.taken.add(bytes);
        Some(Place { _permit: permit, taken: &self.taken, bytes })
    }
}

/// Whether reading it takes more memory than any object is worth: a list of tiny objects takes a hundred times its bytes.
pub(crate) fn is_too_heavy(body: &[u8]) -> bool {
    body.len() > SMALL && weight(body) > HEAVIEST
}

/// What the JSON takes in memory once it was read, at the most.
fn weight(body: &[u8]) -> usize {
    let (mut weight, mut is_text, mut is_escaped, mut before) = (body.len(), false, false, 0);
    for &byte in body {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        weight += match byte {
            b'{' => OF_MAP,
            b'[' => OF_LIST,
            b',' => OF_ITEM,
            _ => 0,
        };
        match (before, byte) {
            // What is empty takes nothing.
            (b'{', b'}') => weight -= OF_MAP,
            (b'[', b']') => weight -= OF_LIST,
            (_, b'"') => is_text = true,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::Context;

    use futures::FutureExt;
    use futures::task::noop_waker;

    use super::*;

    fn room() -> Room {
        Room::new(IntGauge::new("bytes", "bytes").unwrap())
    }

    fn waits<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        future.poll_unpin(&mut Context::from_waker(&noop_waker())).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn large_reviews_wait_for_room_and_small_ones_for_none_of_them() {
        let room = room();
        let largest = [room.place(LARGEST).await, room.place(LARGEST).await];
        assert!(largest.iter().all(Option::is_some));
        assert!(room.place(SMALL).await.is_some(), "a small one waits");
        assert_eq!(usize::try_from(room.taken.get()), Ok(2 * LARGEST));
        let mut third = std::pin::pin!(room.place(SMALL + 1));
        assert!(waits(third.as_mut()));
        drop(largest);
        assert!(third.await.is_some(), "it waits for nothing");
        assert_eq!(room.taken.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_in_time_is_told() {
        let room = room();
        let mut places = vec![];
        for _ in 0..SMALL_ONES {
            places.push(room.place(1).await);
        }
        assert!(room.place(1).await.is_none(), "there is room for more than so many");
        places.pop();
        assert!(room.place(1).await.is_some());
    }

    #[test]
    fn what_is_read_is_weighed_by_its_pieces() {
        for (text, weight_of_pieces) in [
            ("", 0),
            (r#""{[,""#, 0),
            (r#""\"{\\""#, 0),
            ("{}", 0),
            ("[ ]", 0),
            (r#"{"a":1}"#, OF_MAP),
            (r#"[{"":0},{"":0}]"#, OF_LIST + OF_ITEM + 2 * OF_MAP),
            (r#"{"a":[],"b":{}}"#, OF_MAP + OF_ITEM),
        ] {
            assert_eq!(weight(text.as_bytes()), text.len() + weight_of_pieces, "{text}");
        }
        // Half a review of an object as dense as can be, and as large as etcd takes.
        let clique = r#"{"name":"c12345","spec":{"podSpec":{}}},"#;
        assert!(!is_too_heavy(clique.repeat(3_000_000 / clique.len()).as_bytes()));
        assert!(is_too_heavy(r#"{"":0},"#.repeat(LARGEST / 7).as_bytes()));
    }
}
