//! What methods make of answers: items that have to be as many as those of the request, and streams.

use futures_util::{stream, Stream, StreamExt};

use crate::{Code, Error, Result};

/// Checks that the server answered each item of a request.
pub(crate) fn same_number<T>(answers: Vec<T>, count: usize) -> Result<Vec<T>> {
    if answers.len() == count {
        return Ok(answers);
    }
    Err(Error::new(Code::Internal, "INVALID_ANSWER", format!("the server answered {} of {count} items", answers.len())))
}

/// The one answer to the one item of a request.
pub(crate) fn one<T>(answers: Vec<T>) -> Result<T> {
    same_number(answers, 1).map(|mut answers| answers.remove(0))
}

/// The message that the server has to answer with.
pub(crate) fn present<T>(message: Option<T>) -> Result<T> {
    message.ok_or_else(|| Error::new(Code::Internal, "INVALID_ANSWER", "the server's answer lacks a message"))
}

/// The items of all pages. `fetch` gives the items of the page of a token, and the token of the next page, which is empty after the last one.
pub(crate) fn pages<T, Fetched>(
    first: String,
    fetch: impl Fn(String) -> Fetched + Send,
) -> impl Stream<Item = Result<T>> + Send + Unpin
where
    T: Send,
    Fetched: std::future::Future<Output = Result<(Vec<T>, String)>> + Send,
{
    Box::pin(
        stream::unfold((Some(first), fetch), |(token, fetch)| async {
            let (items, next) = match fetch(token?).await {
                Ok((items, next)) => (items.into_iter().map(Ok).collect(), Some(next).filter(|next| !next.is_empty())),
                Err(error) => (vec![Err(error)], None),
            };
            Some((stream::iter(items), (next, fetch)))
        })
        .flatten(),
    )
}
