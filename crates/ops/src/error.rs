//! Errors of the product's API.
//!
//! A verb fails with an [`anyhow::Error`]: its chain names the operation, the value and the cause. A request that the
//! user must change is a [`Usage`] within it, so that every face can tell the two apart.

/// Request that cannot be carried out as it stands; the command line ends with exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Makes a [`Usage`] from a sentence that says what to change.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// True if the user must change the request: a [`Usage`], or an input that does not exist or is of another kind.
pub fn is_usage(error: &anyhow::Error) -> bool {
    use store::StoreError::NotARecording;
    use store::import::ImportError;
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || matches!(cause.downcast_ref(), Some(NotARecording { .. }))
            || matches!(
                cause.downcast_ref(),
                Some(ImportError::Io { .. } | ImportError::Unknown { .. })
            )
    })
}
