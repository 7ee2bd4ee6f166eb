//! Errors of scenarios and simulations.

/// Reason why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    #[error("{0}")]
    Toml(String),
    #[error("{key} = {value}: {why}")]
    Set {
        key: String,
        value: String,
        why: String,
    },
    #[error("{0}")]
    Invalid(String),
    /// Code that was added to a table failed during the run.
    #[error(transparent)]
    Added(#[from] base::plugged::Failure),
}
