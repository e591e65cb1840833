//! Memory that copies of a value share until one of them is changed.

use std::sync::{Arc, OnceLock};

use super::Size;

/// A shared content, with its size once that was asked for.
#[derive(Debug, Default)]
pub(super) struct Shared<T>(Arc<Content<T>>);

#[derive(Clone, Debug, Default)]
struct Content<T> {
    content: T,
    size: OnceLock<Size>,
}

impl<T> Shared<T> {
    pub(super) fn new(content: T) -> Self {
        Self(Arc::new(Content { content, size: OnceLock::new() }))
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        &self.0.content
    }

    /// True if both have the same memory.
    #[inline]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The size of the content, which is determined once.
    pub(super) fn size(&self, of: impl FnOnce(&T) -> Size) -> Size {
        *self.0.size.get_or_init(|| of(&self.0.content))
    }
}

impl<T: Clone> Shared<T> {
    /// The content for changes, copied if it is shared.
    pub(super) fn get_mut(&mut self) -> &mut T {
        let inner = Arc::make_mut(&mut self.0);
        inner.size.take();
        &mut inner.content
    }

    /// The content, copied if it is shared.
    pub(super) fn into_content(self) -> T {
        Arc::unwrap_or_clone(self.0).content
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
